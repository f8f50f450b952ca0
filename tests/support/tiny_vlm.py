"""Tiny vision-language models with random weights, built from nothing but their configurations.

They are written as a download would lie in a folder: model, tokenizer, image processor.
"""

import json


def _tokenizer(image, **special):
    """Single bytes and the words yes and no; `image` is what the chat template puts for a picture."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {letter: k for k, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = []
    for word in ("yes", "no", "Yes", "No"):
        for k in range(1, len(word)):
            if word[: k + 1] not in vocabulary:
                vocabulary[word[: k + 1]] = len(vocabulary)
                merges.append((word[:k], word[k]))
    tokens = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        extra_special_tokens=special,
    )
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {% for c in m['content'] %}{% if c['type'] == 'image' %}"
        + image
        + "{% else %}{{ c['text'] }}{% endif %}{% endfor %}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    return tokenizer


def _text(tokenizer, **more):
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    } | more


_VISION = {"hidden_size": 32, "intermediate_size": 64}


def _write(folder, kind, config, tokenizer, image_processor, **processor):
    import torch
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(0)
        getattr(transformers, kind)(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    image_processor.save_pretrained(folder)
    if processor:
        (folder / "processor_config.json").write_text(json.dumps(processor))
    return folder


def write_tiny_qwen(folder):
    """A Qwen2.5-VL."""
    from transformers import Qwen2_5_VLConfig
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    tokenizer = _tokenizer(
        "<|vision_start|><|image_pad|><|vision_end|>",
        image_token="<|image_pad|>",
        video_token="<|video_pad|>",
        vision_start="<|vision_start|>",
        vision_end="<|vision_end|>",
    )
    ids = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    vision = _VISION | {"depth": 2, "num_heads": 2, "out_hidden_size": 32, "fullatt_block_indexes": [1]}
    config = Qwen2_5_VLConfig(
        text_config=_text(tokenizer, rope_parameters=rope),
        vision_config=vision | {"patch_size": 14, "spatial_merge_size": 2, "window_size": 112},
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    images = Qwen2VLImageProcessorPil(patch_size=14, merge_size=2, min_pixels=56 * 56, max_pixels=168 * 168)
    return _write(folder, "Qwen2_5_VLForConditionalGeneration", config, tokenizer, images)


def write_tiny_gemma(folder):
    """A Gemma 3."""
    from transformers import Gemma3Config
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

    tokenizer = _tokenizer("<boi>", boi_token="<boi>", eoi_token="<eoi>", image_token="<image>")
    ids = tokenizer.convert_tokens_to_ids
    vision = _VISION | {"num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 56, "patch_size": 14}
    config = Gemma3Config(
        text_config=_text(tokenizer, head_dim=16),
        vision_config=vision,
        mm_tokens_per_image=4,
        boi_token_index=ids("<boi>"),
        eoi_token_index=ids("<eoi>"),
        image_token_id=ids("<image>"),
    )
    images = Gemma3ImageProcessorPil(size={"height": 56, "width": 56})
    return _write(folder, "Gemma3ForConditionalGeneration", config, tokenizer, images, image_seq_length=4)


def write_tiny_internvl(folder):
    """An InternVL."""
    from transformers import InternVLConfig
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

    tokenizer = _tokenizer(
        "<IMG_CONTEXT>\n",
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    vision = _VISION | {"num_hidden_layers": 2, "num_attention_heads": 2, "image_size": [56, 56]}
    config = InternVLConfig(
        text_config=_text(tokenizer, model_type="qwen2"),
        vision_config=vision | {"patch_size": [14, 14]},
        image_seq_length=4,
        downsample_ratio=0.5,
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
    )
    images = GotOcr2ImageProcessorPil(size={"height": 56, "width": 56})
    return _write(folder, "InternVLForConditionalGeneration", config, tokenizer, images, image_seq_length=4)
