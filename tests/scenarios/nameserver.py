"""A name server on 127.0.0.1:53 that answers as the first label of the name says, then a command.

nameserver.py COMMAND ...   (in a network and a mount namespace of its own)
"""

import socket
import struct
import subprocess
import sys
import threading

RCODES = {"servfail": 2, "nxdomain": 3, "refused": 5}
ADDRESS = bytes([127, 0, 0, 7])


def answer(query):
    number, _, _, _, _, _ = struct.unpack_from(">HHHHHH", query)
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    question = query[12 : at + 5]
    if labels[0] == "silent":
        return None
    rcode = RCODES.get(labels[0], 0)
    found = rcode == 0 and question[-4:-2] == b"\0\1"
    header = struct.pack(">HHHHHH", number, 0x8180 | rcode, 1, found, 0, 0)
    record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + ADDRESS if found else b""
    return header + question + record


def serve_datagrams(server):
    while True:
        query, peer = server.recvfrom(512)
        reply = answer(query)
        if reply is not None:
            server.sendto(reply, peer)


def serve_streams(server):
    while True:
        connection, _ = server.accept()
        reply = answer(connection.recv(514)[2:])
        connection.sendall(struct.pack(">H", len(reply)) + reply)
        connection.close()


def main():
    for kind, serve in ((socket.SOCK_DGRAM, serve_datagrams), (socket.SOCK_STREAM, serve_streams)):
        server = socket.socket(socket.AF_INET, kind)
        server.bind(("127.0.0.1", 53))
        if kind == socket.SOCK_STREAM:
            server.listen()
        threading.Thread(target=serve, args=(server,), daemon=True).start()
    sys.exit(subprocess.run(sys.argv[1:]).returncode)


main()
