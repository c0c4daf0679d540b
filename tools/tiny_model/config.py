"""Sizes of the small checkpoint, as the config.json of the release spells them."""
import json
import pathlib

from tools.tiny_model import engram_hash


def text_config(vocab_size, **changes):
    """The shipped sizes; `changes` replaces single fields (tests use smaller models)."""
    text = {
        "model_type": "deepseek_v41_text", "hidden_act": "silu", "scoring_func": "sqrtsoftplus",
        "topk_method": "noaux_tc", "norm_topk_prob": True, "routed_scaling_factor": 1.5,
        "n_shared_experts": 1, "num_key_value_heads": 1, "rms_norm_eps": 1e-20,
        "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6,
        "vocab_size": vocab_size, "hidden_size": 192, "num_hidden_layers": 7,
        "num_attention_heads": 4, "head_dim": 128, "qk_rope_head_dim": 32, "q_lora_rank": 96,
        "o_groups": 2, "o_lora_rank": 96, "swiglu_limit": 10.0,
        "moe_intermediate_size": 128, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "max_position_embeddings": 32768, "rope_theta": 10000, "compress_rope_theta": 40000,
        "rope_scaling": {"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                         "original_max_position_embeddings": 2048},
        "sliding_window": 128, "compress_ratios": [0, 0, 2, 2, 1, 1, 1, 0, 0, 0],
        "kv_source_layer_ids": [2, 4], "index_source_layer_ids": [2, 4, 6],
        "index_n_heads": 4, "index_head_dim": 64, "index_topk": 64,
        "candidate_source_layer_id": 4, "candidate_topk_blocks": 24, "candidate_block_size": 8,
        "engram_layer_ids": [1, 3], "engram_vocab_size": 6000, "engram_n_heads": 2,
        "engram_head_dim": 32, "engram_max_ngram_size": 4, "engram_pad_token_id": 2,
        "num_nextn_predict_layers": 3, "dspark_block_size": 5,
        "dspark_noise_token_id": vocab_size - 8, "dspark_target_layer_ids": [4, 5, 6],
        "dspark_markov_rank": 64, "dspark_n_routed_experts": 4, "dspark_num_experts_per_tok": 2,
        "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": False,
    }
    text.update(changes)
    return text


def with_engram(text, token_texts):
    """Adds what the Engram tables' sizes follow from: the tokenizer and the prime search."""
    _, compressed = engram_hash.token_map(token_texts)
    tables = engram_hash.primes(text)
    return dict(text, engram_compressed_vocab_size=compressed,
                engram_num_embeddings=[sum(map(sum, layer)) for layer in tables])


def file_config(text):
    """The whole config.json."""
    return {
        "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41",
        "tie_word_embeddings": False, "text_config": text,
        "quantization_config": {
            "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32],
            "scale_fmt": "ue8m0", "expert_dtype": "fp4"},
    }


def kv_source(text, layer):
    """The layer whose compressed rows `layer` reads."""
    return max(source for source in text["kv_source_layer_ids"] if source <= layer)


def read(folder):
    return json.loads((pathlib.Path(folder) / "config.json").read_text())["text_config"]
