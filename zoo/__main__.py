"""Run the command line by `python -m zoo`, which does the same as the `zoo` command."""

from zoo.entry_point import main

if __name__ == "__main__":
    main()
