"""Writes a tiny llama model with random weights, a token for each byte: `python tiny_gguf.py FILE`.

For a Python with gguf and numpy. The model's text is noise; only what a grammar allows has a meaning.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

WIDTH, INNER, BLOCKS, HEADS, WINDOW = 64, 128, 2, 4, 4_096
EPSILON = 1e-5
SPREAD = 0.05  # of the weights


def write(path: str) -> None:
    """Write the model into a file."""
    gguf: Any = import_module("gguf")
    numpy: Any = import_module("numpy")
    writer = gguf.GGUFWriter(path, "llama")
    vocabulary = _add_tokens(writer, gguf.TokenType)
    _add_sizes(writer, vocabulary, gguf.LlamaFileType.ALL_F32)
    _add_weights(writer, vocabulary, numpy)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokens(writer: Any, kinds: Any) -> int:
    """Add the vocabulary, and return its size: SentencePiece's three, a token for each byte, and the printable letters."""
    letters = [bytes([code]) for code in range(32, 127)]
    tokens = [b"<unk>", b"<s>", b"</s>", *[f"<0x{code:02X}>".encode() for code in range(256)], *letters]
    control = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_types([*control, *[kinds.BYTE] * 256, *[kinds.NORMAL] * len(letters)])
    writer.add_token_scores([0.0] * 259 + [-float(number) for number in range(len(letters))])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    return len(tokens)


def _add_sizes(writer: Any, vocabulary: int, file_type: Any) -> None:
    writer.add_name("tiny")
    writer.add_file_type(file_type)
    writer.add_vocab_size(vocabulary)
    writer.add_context_length(WINDOW)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(BLOCKS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)


def _add_weights(writer: Any, vocabulary: int, numpy: Any) -> None:
    chance = numpy.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(f"{name}.weight", (chance.standard_normal(shape) * SPREAD).astype(numpy.float32))

    def add_norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", numpy.ones(WIDTH, numpy.float32))

    add("token_embd", vocabulary, WIDTH)
    add("output", vocabulary, WIDTH)
    add_norm("output_norm")
    for block in range(BLOCKS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{block}.{part}", WIDTH, WIDTH)
        add(f"blk.{block}.ffn_gate", INNER, WIDTH)
        add(f"blk.{block}.ffn_up", INNER, WIDTH)
        add(f"blk.{block}.ffn_down", WIDTH, INNER)
        add_norm(f"blk.{block}.attn_norm")
        add_norm(f"blk.{block}.ffn_norm")


if __name__ == "__main__":
    write(sys.argv[1])
