"""Let `python -m zoo` run the same command line as the `zoo` command."""

from zoo.entry_point import main

if __name__ == "__main__":
    main()
