"""`python -m zoo` is the command `zoo`."""

from zoo.door import main

if __name__ == "__main__":
    main()
