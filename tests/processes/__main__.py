"""python -m tests.processes: the inside of a RemoteProcess; see child.py."""

from tests.processes.child import main

if __name__ == "__main__":
    main()
