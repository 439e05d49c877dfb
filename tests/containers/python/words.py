"""What a user writes with Numaflow's SDK for Python: it knows nothing of Ballast.

The number of the message in words; every tenth is dropped, and every hundredth tagged.
"""

import sys

from pynumaflow.mapper import Datum, MapAsyncServer, Message, Messages


async def words(keys: list[str], datum: Datum) -> Messages:
    number = int.from_bytes(datum.value[:8], "big")
    if number % 10 == 9:
        return Messages(Message.to_drop())
    tag = "hundred" if number % 100 == 0 else "other"
    return Messages(Message(str(number).encode(), keys=keys, tags=[tag]))


if __name__ == "__main__":
    sockets = sys.argv[1]
    MapAsyncServer(
        words,
        sock_path=f"{sockets}/map.sock",
        server_info_file=f"{sockets}/mapper-server-info",
    ).start()
