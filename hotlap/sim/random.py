"""Counter-based random numbers.

A draw is a hash of the words that name it: (seed, environment, episode, step, stream). It depends
on nothing else, so an environment's future is the same alone, in any batch, in any order and on any
device. Words are int64 tensors or Python integers; arithmetic is modulo 2**32 inside int64, which
CPUs and GPUs agree on to the bit.
"""

import math
from enum import IntEnum

import torch
from torch import Tensor

MASK = 0xFFFFFFFF
UNIT = 2.0**-24


class Stream(IntEnum):
    """What a draw is for. Each use has its own stream, so adding one never shifts another."""

    START = 1
    LOOK = 3
    CAMERA = 4
    VEHICLE = 5
    IMAGE = 6
    ARENA = 7
    LIDAR = 9
    TRACK = 10
    PLAIN = 11
    STYLE = 12


def mix(word: Tensor) -> Tensor:
    """Scramble 32-bit words (the finaliser of MurmurHash3)."""
    word = word & MASK
    word = ((word ^ (word >> 16)) * 0x85EBCA6B) & MASK
    word = ((word ^ (word >> 13)) * 0xC2B2AE35) & MASK
    return word ^ (word >> 16)


def _mix_number(word: int) -> int:
    """`mix` of a Python number."""
    word &= MASK
    word = ((word ^ (word >> 16)) * 0x85EBCA6B) & MASK
    word = ((word ^ (word >> 13)) * 0xC2B2AE35) & MASK
    return word ^ (word >> 16)


def make_key(first: Tensor, *words: Tensor | int) -> Tensor:
    """Fold words into one 32-bit key, shaped like the broadcast of them all.

    `first` is a tensor so that the key lives on its device. A number and a tensor that holds it
    give the same key; 64-bit words count in full.
    """
    key = mix(mix(first) + (first >> 32) + 0x9E3779B9)
    for word in words:
        if isinstance(word, Tensor):
            folded: Tensor | int = mix(word + 0x7F4A7C15) + (word >> 32)
        else:
            folded = _mix_number(int(word) + 0x7F4A7C15) + (int(word) >> 32)
        key = mix(key * 0x01000193 + folded)
    return key


def uniform(key: Tensor, count: int) -> Tensor:
    """`count` numbers in [0, 1) for each key: (...,) -> (..., count)."""
    lanes = torch.arange(1, count + 1, device=key.device, dtype=torch.int64)
    bits = mix(key.unsqueeze(-1) + lanes * 0x9E3779B1)
    return (bits >> 8).to(torch.float32) * UNIT


def integers(key: Tensor, below: int | Tensor, count: int = 1) -> Tensor:
    """`count` integers in [0, below) for each key: (...,) -> (..., count)."""
    lanes = torch.arange(1, count + 1, device=key.device, dtype=torch.int64)
    bits = mix(key.unsqueeze(-1) + lanes * 0x9E3779B1)
    return (bits * below) >> 32


def normal(key: Tensor, count: int) -> Tensor:
    """`count` standard normal numbers for each key, by Box and Muller."""
    draws = uniform(key, 2 * count)
    radius = torch.sqrt(-2.0 * torch.log1p(-draws[..., :count]))
    return radius * torch.cos(2.0 * math.pi * draws[..., count:])
