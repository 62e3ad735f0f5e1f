"""``python -m lhaw_record`` is the command line."""

import sys

from lhaw_record.command_line import main

if __name__ == "__main__":
    sys.exit(main())
