"""Fernet with the standard library alone (AES-128-CBC and HMAC-SHA256): test images have no other package."""

import base64
import hashlib
import hmac
import os
import struct

_ROUNDS = 10


def _box():
    """The S-box of AES, computed."""
    box, p, q = [0x63] * 256, 1, 1
    while True:
        p ^= (p << 1) ^ (0x11B if p & 0x80 else 0)
        p &= 0xFF
        q ^= q << 1
        q ^= q << 2
        q ^= q << 4
        q &= 0xFF
        q ^= 0x09 if q & 0x80 else 0
        box[p] = 0x63 ^ q
        for turn in range(1, 5):
            box[p] ^= ((q << turn) | (q >> (8 - turn))) & 0xFF
        if p == 1:
            return box


_BOX = _box()
_INVERSE = [_BOX.index(value) for value in range(256)]
_SHIFTED = [0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11]


def _product(a, b):
    found = 0
    while b:
        found ^= a if b & 1 else 0
        a = (a << 1) ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return found


_TIMES = {factor: [_product(value, factor) for value in range(256)] for factor in (1, 2, 3, 9, 11, 13, 14)}


def _round_keys(key):
    words = [list(key[at : at + 4]) for at in range(0, 16, 4)]
    constant = 1
    for at in range(4, 4 * (_ROUNDS + 1)):
        word = words[-1]
        if at % 4 == 0:
            word = [_BOX[value] for value in word[1:] + word[:1]]
            word[0] ^= constant
            constant = _product(constant, 2)
        words.append([a ^ b for a, b in zip(words[at - 4], word, strict=True)])
    return [[value for word in words[at : at + 4] for value in word] for at in range(0, len(words), 4)]


def _mixed(state, factors):
    return [
        _TIMES[factors[0]][state[column + row]]
        ^ _TIMES[factors[1]][state[column + (row + 1) % 4]]
        ^ _TIMES[factors[2]][state[column + (row + 2) % 4]]
        ^ _TIMES[factors[3]][state[column + (row + 3) % 4]]
        for column in range(0, 16, 4)
        for row in range(4)
    ]


def _added(state, key):
    return [a ^ b for a, b in zip(state, key, strict=True)]


def _block_encrypted(block, keys):
    state = _added(block, keys[0])
    for number in range(1, _ROUNDS + 1):
        state = [_BOX[state[at]] for at in _SHIFTED]
        state = _added(state if number == _ROUNDS else _mixed(state, (2, 3, 1, 1)), keys[number])
    return bytes(state)


def _block_decrypted(block, keys):
    state = list(block)
    for number in range(_ROUNDS, 0, -1):
        state = _added(state, keys[number])
        state = state if number == _ROUNDS else _mixed(state, (14, 11, 13, 9))
        state = [_INVERSE[state[_SHIFTED.index(at)]] for at in range(16)]
    return bytes(_added(state, keys[0]))


def _keys(key):
    whole = base64.urlsafe_b64decode(key)
    return whole[:16], _round_keys(whole[16:])


def encrypt(key, content):
    """Return the token of a content."""
    signing, keys = _keys(key)
    vector = os.urandom(16)
    padded = content + bytes([16 - len(content) % 16]) * (16 - len(content) % 16)
    blocks, previous = b"", vector
    for at in range(0, len(padded), 16):
        previous = _block_encrypted(_added(padded[at : at + 16], previous), keys)
        blocks += previous
    token = b"\x80" + struct.pack(">Q", 0) + vector + blocks
    return base64.urlsafe_b64encode(token + hmac.digest(signing, token, hashlib.sha256))


def decrypt(key, token):
    """Return the content of a token; ValueError where the key is another one."""
    signing, keys = _keys(key)
    data = base64.urlsafe_b64decode(token)
    if not hmac.compare_digest(hmac.digest(signing, data[:-32], hashlib.sha256), data[-32:]):
        raise ValueError("the key is another one")
    blocks, content = data[9:-32], b""
    for at in range(16, len(blocks), 16):
        content += bytes(_added(_block_decrypted(blocks[at : at + 16], keys), blocks[at - 16 : at]))
    return content[: -content[-1]]
