"""Run the command line: `python -m zoo` is the same as `zoo`."""

from zoo.entry_point import main

if __name__ == "__main__":
    main()
