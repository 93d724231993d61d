"""`python -m zoo` is the command `zoo`."""

from transformer_zoo import main

if __name__ == "__main__":
    main()
