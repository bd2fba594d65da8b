"""`python -m grader COMMAND`: prepare .venv if needed, then run the command in it (see bootstrap.py)."""

import sys

if __name__ == "__main__":
    if tuple(sys.version_info) < (3, 8):
        sys.exit("This course needs Python 3.11 to 3.13, and this is {}.{}.".format(*sys.version_info[:2]))
    from grader.bootstrap import main

    sys.exit(main(sys.argv[1:]))
