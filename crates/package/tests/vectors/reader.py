#!/usr/bin/env python3
"""Reads object packages. Written only from docs/object-package.md.

    reader.py FILE...

writes, for each package, one line for each whole file and one for the outcome, fields separated by tabs:

    file  NAME  SIZE  CRC-32  FLAGS  ATTRIBUTES  CODING  MEDIA-TYPE  ENTITY-TAG  LAST-MODIFIED  SHA-256
    outcome  complete, or the class of the fault

A field that a file does not have is "-". FLAGS are c (critical) and k (kept). The exit status is 0,
also if a package has a fault. Needs Python 3.11 and only its standard library.
"""

import hashlib
import io
import re
import struct
import sys
import unicodedata
import zlib

MAGIC = b"OBJP"
CODINGS = {0: None, 1: "gzip", 2: "deflate"}
LONGEST_PIECE = 65536


class Fault(Exception):
    """A package that must be refused. The argument is the class of the fault."""


def malformed(condition):
    if condition:
        raise Fault("malformed")


class Source:
    """Bytes in order, with a checksum over the bytes since the last call of `begin`."""

    def __init__(self, stream):
        self.stream = stream
        self.checksum = 0

    def begin(self):
        self.checksum = 0

    def take(self, length):
        parts = []
        while length > 0:
            part = self.stream.read(min(length, LONGEST_PIECE))
            if not part:
                raise Fault("truncated")
            parts.append(part)
            length -= len(part)
        bytes = b"".join(parts)
        self.checksum = zlib.crc32(bytes, self.checksum)
        return bytes

    def number(self, length):
        return int.from_bytes(self.take(length), "big")

    def sealed(self):
        """Takes four bytes that must be the checksum of those before them."""
        computed = self.checksum
        if self.number(4) != computed:
            raise Fault("damaged")

    def end(self):
        malformed(self.stream.read(1) != b"")


def checked_name(bytes):
    try:
        name = bytes.decode("utf-8")
    except UnicodeDecodeError:
        raise Fault("malformed") from None
    malformed(any(unicodedata.category(character) == "Cc" for character in name))
    malformed("\\" in name)
    segments = name.split("/")
    malformed("" in segments)
    malformed(any(re.fullmatch(r"(\.|%2[eE]){1,2}", segment) for segment in segments))
    malformed(":" in segments[0])
    return name


class Content:
    """The size, checksum and digest of a content that is read in pieces."""

    def __init__(self):
        self.size = 0
        self.checksum = 0
        self.digest = hashlib.sha256()

    def copy(self, source, length):
        while length > 0:
            piece = source.take(min(length, LONGEST_PIECE))
            self.size += len(piece)
            self.checksum = zlib.crc32(piece, self.checksum)
            self.digest.update(piece)
            length -= len(piece)


def attributes_of(byte):
    malformed(byte & ~0x07)
    return byte


def version_1(source):
    malformed(source.take(3) != bytes(3))
    table_length, table_checksum, contents = struct.unpack(">IIQ", source.take(16))
    source.sealed()

    source.begin()
    field = source.take(table_length)
    if source.checksum != table_checksum:
        raise Fault("damaged")
    malformed(len(field) < 4)
    count = int.from_bytes(field[:4], "big")
    malformed(len(field) < 4 + 7 * count)
    names, start = [], 4
    for _ in range(count):
        end = field.find(b"\0", start)
        malformed(end < 0)
        names.append(checked_name(field[start:end]))
        start = end + 1
    malformed(len(set(names)) != count)
    malformed(len(field) - start != 5 * count)
    sizes = struct.unpack_from(f">{count}I", field, start)
    attributes = [attributes_of(byte) for byte in field[start + 4 * count :]]
    malformed(sum(sizes) != contents)

    for name, size, byte in zip(names, sizes, attributes):
        content = Content()
        content.copy(source, size)
        yield line(name=name, content=content, attributes=byte)
    source.end()


def version_2(source):
    flags = source.number(1)
    reserved = source.take(2)
    stated = source.number(4)
    source.sealed()
    malformed(flags & ~0x03 or reserved != bytes(2))
    ascending, counted = flags & 0x01, flags & 0x02
    malformed(not counted and stated)

    seen = set()
    last, count, others_began = None, 0, False
    while True:
        source.begin()
        kind = source.number(1)
        if kind == 0:
            reserved = source.take(3)
            total = source.number(4)
            source.sealed()
            malformed(reserved != bytes(3))
            malformed(total != count or counted and total != stated)
            source.end()
            return
        malformed(kind != 1)
        malformed(counted and count == stated)
        flags, attributes, coding = source.take(3)
        name_length, type_length, tag_length = struct.unpack(">HBB", source.take(4))
        critical, kept, sized, dated = (flags & bit for bit in (0x01, 0x02, 0x04, 0x08))
        size = source.number(8) if sized else None
        modified = source.number(8) if dated else None
        name = source.take(name_length)
        media_type = source.take(type_length)
        tag = source.take(tag_length)
        source.sealed()

        malformed(flags & ~0x0F)
        attributes_of(attributes)
        if coding not in CODINGS:
            raise Fault("unknown")
        malformed(modified is not None and modified > 253_402_300_799)
        name = checked_name(name)
        malformed(media_type and not re.fullmatch(rb"[!-~]([ -~]*[!-~])?", media_type))
        malformed(tag and not re.fullmatch(rb'(W/)?"[!#-~]*"', tag))
        malformed(kept and (sized or coding or not tag))
        malformed(critical and others_began)
        others_began = others_began or not critical
        malformed(name in seen)
        if ascending and not critical:
            malformed(last is not None and name.encode() <= last)
            last = name.encode()
        seen.add(name)
        count += 1

        content = Content()
        if not kept:
            if sized:
                content.copy(source, size)
            else:
                while length := source.number(4):
                    content.copy(source, length)
            if source.number(4) != content.checksum:
                raise Fault("damaged")
        yield line(
            name=name,
            content=content,
            attributes=attributes,
            checked=not kept,
            flags=("c" if critical else "") + ("k" if kept else ""),
            coding=CODINGS[coding],
            media_type=media_type.decode(),
            tag=tag.decode(),
            modified=modified,
        )


def line(*, name, content, attributes, checked=False, flags="", coding=None, media_type="", tag="", modified=None):
    fields = [
        "file",
        name,
        str(content.size),
        f"{content.checksum:08x}" if checked else "-",
        flags or "-",
        str(attributes),
        coding or "-",
        media_type or "-",
        tag or "-",
        "-" if modified is None else str(modified),
        content.digest.hexdigest(),
    ]
    return "\t".join(fields)


def lines(stream):
    source = Source(stream)
    try:
        for place in range(4):
            if source.take(1) != MAGIC[place : place + 1]:
                raise Fault("unknown")
        version = source.number(1)
        if version == 1:
            yield from version_1(source)
        elif version == 2:
            yield from version_2(source)
        else:
            raise Fault("unknown")
        outcome = "complete"
    except Fault as fault:
        outcome = fault.args[0]
    yield "outcome\t" + outcome


def main():
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
    for path in sys.argv[1:]:
        with open(path, "rb") as stream:
            for text in lines(stream):
                print(text, file=out)
    out.flush()


if __name__ == "__main__":
    main()
