"""Run as a program of its own, by a Python that has ``ipykernel``: a kernel, and one line of code after the other.

Prints an empty line when the kernel is ready, and then for each line that it reads what that has printed, when the
kernel is idle again.
"""

import sys

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel


def run(client: BlockingKernelClient, line: str) -> str:
    """What this line of code prints."""
    said: list[str] = []
    client.execute_interactive(
        line, output_hook=lambda message: said.append(message["content"].get("text", "")), store_history=False
    )
    return "".join(said).strip()


def main() -> None:
    """See the module."""
    manager, client = start_new_kernel()
    print(flush=True)
    try:
        for line in sys.stdin:
            print(run(client, line), flush=True)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
