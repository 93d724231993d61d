"""`python -m zoo` is the command `zoo`."""

from zoo.entry_point import main

if __name__ == "__main__":
    main()
