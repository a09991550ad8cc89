"""Two servers that send and take as fast as they can: ``python flood.py PAIR.pem`` writes their ports, TLS first."""

import contextlib
import socket
import ssl
import sys
import threading

HOST = "127.0.0.11"
PIECE = b"0123456789abcdef" * 16384


def serve(connection: socket.socket, context: ssl.SSLContext | None) -> None:
    with contextlib.suppress(OSError):
        stream = context.wrap_socket(connection, server_side=True) if context else connection
        head = b""
        while b"\r\n\r\n" not in head:
            head += stream.recv(65536)
        if b" /flood " in head:
            stream.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                stream.sendall(PIECE)
        while stream.recv(1 << 20):
            pass


def accept(listener: socket.socket, context: ssl.SSLContext | None) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, context), daemon=True).start()


def main() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    secure, plain = socket.create_server((HOST, 0)), socket.create_server((HOST, 0))
    print(secure.getsockname()[1], plain.getsockname()[1], flush=True)  # noqa: T201 - that is how its parent learns them
    threading.Thread(target=accept, args=(plain, None), daemon=True).start()
    accept(secure, context)


if __name__ == "__main__":
    main()
