"""Run the `zoo` command as `python -m zoo`."""

from zoo.entry_point import main

if __name__ == "__main__":
    main()
