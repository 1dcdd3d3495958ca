"""A writer of a ledger that says what it has written, until it is killed."""

import sys
from itertools import count
from pathlib import Path

from hotlap.store.ledger import Ledger

if __name__ == "__main__":
    with Ledger.open(Path(sys.argv[1])) as ledger:
        for number in count(len(ledger.records("trial"))):
            ledger.append("trial", trial=number, text="x" * (number * 131 % 2000))
            print(number, flush=True)
