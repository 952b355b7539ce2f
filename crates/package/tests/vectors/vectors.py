#!/usr/bin/env python3
"""Makes the packages of this folder, byte by byte by docs/object-package.md, and outcomes.txt:

    vectors.py FOLDER

Each line of outcomes.txt is the name of a package, the class of its fault or "complete", and the number of
files that are whole before the fault. Needs Python 3.11 and only its standard library.
"""

import pathlib
import struct
import sys
import zlib


def crc(bytes):
    return struct.pack(">I", zlib.crc32(bytes))


def sealed(bytes):
    return bytes + crc(bytes)


def one(files, *, count=None, table=None, contents=None, reserved=bytes(3)):
    """A package of version 1: files of (name, attributes, content). Keyword arguments state wrong values."""
    field = struct.pack(">I", len(files) if count is None else count)
    field += b"".join(name + b"\0" for name, _, _ in files)
    field += b"".join(struct.pack(">I", len(content)) for _, _, content in files)
    field += bytes(attributes for _, attributes, _ in files)
    body = b"".join(content for _, _, content in files)
    total = len(body) if contents is None else contents
    length = len(field) if table is None else table
    header = b"OBJP\x01" + reserved + struct.pack(">I", length)
    header += crc((field + body)[:length])
    header += struct.pack(">Q", total)
    return sealed(header) + field + body


def two(*records, ascending=False, count=None, flags=None, reserved=bytes(2), stated=0):
    """A package of version 2 without its end."""
    if flags is None:
        flags = (1 if ascending else 0) | (2 if count is not None else 0)
    number = stated if count is None else count
    return sealed(b"OBJP\x02" + bytes([flags]) + reserved + struct.pack(">I", number)) + b"".join(records)


def head(name, *, flags=0, attributes=0, coding=0, size=None, modified=None, media_type=b"", tag=b""):
    flags |= (4 if size is not None else 0) | (8 if modified is not None else 0)
    bytes = bytes([1, flags, attributes, coding])
    bytes += struct.pack(">HBB", len(name), len(media_type), len(tag))
    bytes += b"".join(struct.pack(">Q", number) for number in (size, modified) if number is not None)
    return sealed(bytes + name + media_type + tag)


def file(name, content, **known):
    return head(name, size=len(content), **known) + content + crc(content)


def chunked(name, *chunks, **known):
    content = b"".join(chunks)
    framed = b"".join(struct.pack(">I", len(chunk)) + chunk for chunk in chunks)
    return head(name, **known) + framed + bytes(4) + crc(content)


def end(count, reserved=bytes(3)):
    return sealed(bytes([0]) + reserved + struct.pack(">I", count))


def flipped(bytes, place):
    changed = bytearray(bytes)
    changed[place] ^= 0x10
    return bytes(changed)


A = (b"a", 0, b"first")
B = (b"b", 0, b"second")
THREE = one([(b"index.html", 0, b"<p>hi</p>"), (b"empty.txt", 4, b""), (b"img/dot", 3, bytes([0, 255, 10]))])
RICH = two(
    file(b"index.html", b"<p>hi</p>", flags=1, modified=784111777, media_type=b"text/html", tag=b'"1"'),
    head(b"logo.gif", flags=2, tag=b'"7"'),
    chunked(b"now.txt", b"no", b"w"),
    end(3),
)
FIRST = file(b"a", b"first")
GZIP = bytes.fromhex("1f8b08000000000002034bcb2c2a2e010057ee719205000000")

VECTORS = {
    # Valid packages.
    "empty-1": (one([]), "complete", 0),
    "three-1": (THREE, "complete", 3),
    "empty-2": (two(end(0), ascending=True, count=0), "complete", 0),
    "rich-2": (RICH, "complete", 3),
    "all-2": (
        two(
            file(b"z", b"now", flags=1),
            file(b"a b?c=d", b"", attributes=7, media_type=b"text/plain; charset=utf-8", tag=b'W/"x"'),
            file("gr\u00fcn/\U0001f600".encode(), GZIP, coding=1, modified=253_402_300_799),
            head(b"kept", flags=2, media_type=b"image/png", modified=0, tag=b'"k"'),
            end(4),
            ascending=True,
            count=4,
        ),
        "complete",
        4,
    ),
    "unordered-2": (two(FIRST, file(b"c", b""), file(b"b", b""), end(3), count=3), "complete", 3),
    # Another format, or an unknown version or coding.
    "other-format": (b"PK\x03\x04" + bytes(40), "unknown", 0),
    "version-3": (b"OBJP\x03" + bytes(40), "unknown", 0),
    "coding-9": (two(FIRST, file(b"b", b"x", coding=9), end(2)), "unknown", 1),
    # Damaged in transit.
    "header-1": (flipped(THREE, 17), "damaged", 0),
    "count-1": (flipped(THREE, 28 + 3), "damaged", 0),
    "name-1": (flipped(THREE, 28 + 4 + 10), "damaged", 0),
    "size-1": (flipped(THREE, 28 + 4 + 11 + 10 + 8 + 3), "damaged", 0),
    "attribute-1": (flipped(THREE, 28 + 4 + 11 + 10 + 8 + 12), "damaged", 0),
    "header-2": (flipped(RICH, 5), "damaged", 0),
    "head-2": (flipped(RICH, 16 + 24), "damaged", 0),
    "content-2": (flipped(two(FIRST, file(b"b", b"second"), end(2)), 16 + 21 + 5 + 4 + 21 + 2), "damaged", 1),
    "chunk-2": (
        two(FIRST, head(b"b") + b"\0\0\0\x02no" + bytes(4) + crc(b"on"), end(2)),
        "damaged",
        1,
    ),
    "end-2": (flipped(two(FIRST, end(1)), -9), "damaged", 1),
    # Truncated.
    "cut-1": (one([A, B])[:-1], "truncated", 1),
    "cut-table-1": (one([A, B])[:40], "truncated", 0),
    "cut-2": (two(FIRST, file(b"b", b"second"), end(2))[:-20], "truncated", 1),
    "cut-end-2": (two(FIRST, end(1))[:-1], "truncated", 1),
    "cut-chunk-2": (two(FIRST, head(b"b") + b"\0\0\xff\xffno"), "truncated", 1),
    # Names.
    "climbing-1": (one([A, (b"../../etc/passwd", 0, b"x")]), "malformed", 0),
    "climbing-2": (two(FIRST, file(b"../../etc/passwd", b"x"), end(2)), "malformed", 1),
    "climbing-encoded-2": (two(FIRST, file(b"x/%2E./%2e%2e/y", b"x"), end(2)), "malformed", 1),
    "absolute-1": (one([(b"/etc/passwd", 0, b"x")]), "malformed", 0),
    "absolute-2": (two(file(b"/etc/passwd", b"x"), end(1)), "malformed", 0),
    "drive-2": (two(file(b"C:/x", b"x"), end(1)), "malformed", 0),
    "backslash-2": (two(file(b"..\\x", b"x"), end(1)), "malformed", 0),
    "nul-2": (two(file(b"a\0b", b"x"), end(1)), "malformed", 0),
    "line-2": (two(file(b"a\nb", b"x"), end(1)), "malformed", 0),
    "c1-1": (one([("a\u0085".encode(), 0, b"x")]), "malformed", 0),
    "empty-name-1": (one([A, (b"", 0, b""), (b"bb", 0, b"")]), "malformed", 0),
    "empty-name-2": (two(FIRST, file(b"", b"x"), end(2)), "malformed", 1),
    "folder-2": (two(FIRST, file(b"b/", b"x"), end(2)), "malformed", 1),
    "not-utf8-1": (one([(b"\xff\xfe", 0, b"x")]), "malformed", 0),
    "not-utf8-2": (two(file(b"\xc0\xaf", b"x"), end(1)), "malformed", 0),
    "twice-1": (one([A, A]), "malformed", 0),
    "twice-2": (two(FIRST, file(b"b", b""), FIRST, end(3)), "malformed", 2),
    "twice-ascending-2": (two(FIRST, FIRST, end(2), ascending=True), "malformed", 1),
    "twice-critical-2": (
        two(file(b"b", b"", flags=1), FIRST, file(b"b", b""), end(3), ascending=True),
        "malformed",
        2,
    ),
    "descending-2": (two(file(b"b", b""), FIRST, end(2), ascending=True), "malformed", 1),
    # Wrong numbers and lengths.
    "count-above-1": (one([A, B], count=3), "malformed", 0),
    "count-below-1": (one([A, B], count=1), "malformed", 0),
    "count-absurd-1": (one([A, B], count=0xFFFFFFFF), "malformed|too-large", 0),
    "table-absurd-1": (one([A, B], table=0xFFFFFFFF), "truncated|too-large", 0),
    "table-short-1": (one([A, B], table=17), "malformed", 0),
    "table-long-1": (one([A, B], table=19), "malformed", 0),
    "table-none-1": (one([], table=3), "malformed", 0),
    "sizes-above-1": (one([A, B], contents=10), "malformed", 0),
    "sizes-below-1": (one([A, B], contents=2**63), "malformed", 0),
    "endless-name-1": (one([(b"n" * 70_000, 0, b"")])[:60_000], "truncated|too-large", 0),
    "count-above-2": (two(FIRST, end(1), count=2), "malformed", 1),
    "count-below-2": (two(FIRST, file(b"b", b""), end(2), count=1), "malformed", 1),
    "count-end-2": (two(FIRST, end(2)), "malformed", 1),
    "size-absurd-2": (two(FIRST, head(b"b", size=2**64 - 1) + b"second", end(2)), "truncated|too-large", 1),
    # Reserved bits and bytes, and contradictions.
    "attributes-1": (one([(b"a", 8, b"")]), "malformed", 0),
    "attributes-2": (two(file(b"a", b"", attributes=0x80), end(1)), "malformed", 0),
    "reserved-1": (one([A], reserved=b"\0\0\1"), "malformed", 0),
    "reserved-2": (two(FIRST, end(1), reserved=b"\1\0"), "malformed", 0),
    "reserved-flag-2": (two(FIRST, end(1), flags=4), "malformed", 0),
    "uncounted-2": (two(FIRST, end(1), stated=1), "malformed", 0),
    "record-flag-2": (two(FIRST, file(b"b", b"", flags=0x10), end(2)), "malformed", 1),
    "record-kind-2": (two(FIRST, b"\2" + bytes(30)), "malformed", 1),
    "reserved-end-2": (two(FIRST, end(1, reserved=b"\0\1\0")), "malformed", 1),
    "critical-late-2": (two(FIRST, file(b"b", b"", flags=1), end(2)), "malformed", 1),
    "kept-untagged-2": (two(FIRST, head(b"b", flags=2), end(2)), "malformed", 1),
    "kept-sized-2": (two(FIRST, head(b"b", flags=2, size=0, tag=b'"1"'), end(2)), "malformed", 1),
    "kept-coded-2": (two(FIRST, head(b"b", flags=2, coding=1, tag=b'"1"'), end(2)), "malformed", 1),
    "split-field-2": (two(FIRST, file(b"b", b"", media_type=b"text/html\r\nX: y"), end(2)), "malformed", 1),
    "bare-tag-2": (two(FIRST, file(b"b", b"", tag=b"bare"), end(2)), "malformed", 1),
    "year-10000-2": (two(FIRST, file(b"b", b"", modified=253_402_300_800), end(2)), "malformed", 1),
    # Bytes after the end.
    "behind-1": (one([A]) + b"\n", "malformed", 1),
    "behind-2": (two(FIRST, end(1)) + b"\n", "malformed", 1),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, (bytes, _, _) in VECTORS.items():
        (folder / f"{name}.objp").write_bytes(bytes)
    rows = [f"{name}.objp {outcome} {whole}\n" for name, (_, outcome, whole) in VECTORS.items()]
    (folder / "outcomes.txt").write_text("".join(rows))


if __name__ == "__main__":
    main()
