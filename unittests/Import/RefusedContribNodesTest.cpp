// SPDX-License-Identifier: Apache-2.0
// Nodes of onnxruntime's own domain that import refuses: for each way to be wrong one line, and
// what is said of it.
#include "ImportTest.h"
#include "NodeText.h"

using namespace autopar::test;

TEST(RefusedContribNodes, Activations) {
  expectRefusals({
      {"com.microsoft::BiasSplitGelu f[2,3] f[3]",
       "input 0 'x0' must have an even number of channels"},
      {"com.microsoft::BiasGelu f[2,3] f[4]",
       "operands tensor<2x3xf32> and tensor<4xf32> do not broadcast to each other"},
      {"com.microsoft::BiasSoftmax f[2,3] f[3] axis=2", "axis 2 is out of range for rank 2"},
  });
}

TEST(RefusedContribNodes, Normalizations) {
  expectRefusals({
      {"com.microsoft::SkipLayerNormalization f[4] f[4] f[4]",
       "input 0 'x0' must have 2 or 3 dimensions"},
      {"com.microsoft::SkipLayerNormalization f[3,4] f[2,3,4] f[4]",
       "input 1 'x1' must broadcast to input 0"},
      {"com.microsoft::EmbedLayerNormalization j[4]",
       "input 0 'x0' must be of shape [batch, tokens]"},
      {"com.microsoft::EmbedLayerNormalization j[2,3]", "input 2 '' is missing"},
      {"com.microsoft::EmbedLayerNormalization j[2,3] - f[8] f[3,4] - f[4] f[4]",
       "input 2 'x2' must be a table"},
      {"com.microsoft::EmbedLayerNormalization j[2,3] j[2,3] f[8,4] f[3,4] - f[4] f[4]",
       "segments and their table must be given together"},
      {"com.microsoft::EmbedLayerNormalization j[2,3] - f[8,4] f[2,4] - f[4] f[4]",
       "input 3 'x3' must have a row for each of 3 positions"},
      {"com.microsoft::QEmbedLayerNormalization j[2,3] - u[8,4] u[3,4] - u[4] u[4] - f[8]",
       "input 8 'x8' must be one number"},
      {"com.microsoft::QEmbedLayerNormalization j[2,3] - u[8,4] u[3,4] - u[4] u[4] - f[] f[] - f[] "
       "f[] u[] u[] - u[]",
       "input 17 '' must be one number"},
      {"com.microsoft::GroupNorm f[2,3,4] f[4] f[4]", "input 0 'x0' must have 4 dimensions"},
      {"com.microsoft::GroupNorm f[1,3,3,4] f[4] f[4] groups=3", "groups 3 must divide 4 channels"},
      {"com.microsoft::GroupNorm f[1,3,3,4] f[4] f[4] groups=2 activation=2",
       "attribute 'activation' must be 0 or 1, not 2"},
      {"com.microsoft::SkipGroupNorm f[2,3,4] f[4] f[4] f[2,4] groups=2",
       "input 0 'x0' must have 4 dimensions"},
      {"com.microsoft::SkipGroupNorm f[1,3,3,4] f[4] f[4] f[2,3,3,4] groups=2",
       "input 3 'x3' must broadcast to input 0"},
  });
}

TEST(RefusedContribNodes, RotaryEmbedding) {
  expectRefusals({
      {"com.microsoft::RotaryEmbedding f[2,3,8] i[1] f[9,2] f[9,2] is_packed_batching=1",
       "attribute 'is_packed_batching' = 1 is not supported, expected 0"},
      {"com.microsoft::RotaryEmbedding f[2,3,8] i[1] f[9,2] f[9,2] scale=2.0",
       "attribute 'scale' is not supported: onnxruntime's CPU ignores it"},
      {"com.microsoft::RotaryEmbedding f[3,8] i[1] f[9,2] f[9,2]",
       "input 0 'x0' must have 3 or 4 dimensions"},
      {"com.microsoft::RotaryEmbedding f[2,3,8] i[1] f[9,2] f[9,3]",
       "cosines and sines must be tables of one shape"},
      {"com.microsoft::RotaryEmbedding f[2,3,8] i[1] f[9,1] f[9,1] num_heads=2 "
       "rotary_embedding_dim=4",
       "tables of 1 angles do not turn 4 of 4 channels"},
      {"com.microsoft::RotaryEmbedding f[2,3,8] i[2,2] f[9,2] f[9,2]",
       "input 1 'x1' must be of shape [1] or [2, 3]"},
      {"com.microsoft::GemmaRotaryEmbedding f[2,3] h[2,2,3,4] h[2,2,3,4] h[2,2,3,4] h[2,2,3,4]",
       "input 0 'x0' must have 3 dimensions"},
  });
}

TEST(RefusedContribNodes, MultiHeadAttention) {
  expectRefusals({
      {"com.microsoft::MultiHeadAttention f[2,3,8] num_heads=2",
       "without a key, input 0 must be of shape [batch, tokens, 2, 3, size], with a bias of as "
       "many "
       "channels or none"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,3,8] num_heads=2",
       "without a value, input 1 must be of shape [batch, keys, 2, 2, size], and there must be no "
       "bias"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,3,8] f[2,3,8] f[23] num_heads=2",
       "input 3 'x3' must have 24 numbers"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,2,4,4] f[2,2,4,4] f[7] num_heads=2",
       "input 3 'x3' is too short"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,4,6] f[2,4,6] num_heads=2",
       "query [2, 2, 3, 4], key [2, 2, 4, 3] and value [2, 2, 4, 3] do not fit"},
      {"com.microsoft::MultiHeadAttention i[2,3,8] i[2,3,8] i[2,3,8] num_heads=2",
       "query, key and value must be floats of one type"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,3,8] f[2,3,8] - j[2,4] num_heads=2",
       "input 4 'x4' must be a mask of [2, 3] or [2, 3, 3], or numbers of keys [2], got [2, 4]"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,3,8] f[2,3,8] - - f[3,4] num_heads=2",
       "input 5 'x5' must have 4 dimensions, the last of 3 keys, got [3, 4]"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,3,8] f[2,3,8] - - - f[2,2,5,4] num_heads=2",
       "past key and value must be given together"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,3,8] f[2,3,8] - - - f[2,2,5,3] f[2,2,5,3] "
       "num_heads=2",
       "past [2, 2, 5, 3] does not fit [2, 2, 3, 4]"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,3,8] f[2,3,8] - - - f[2,2,5,4] f[2,2,5,4] "
       "j[1] num_heads=2",
       "input 8 'x8' is not supported (a cache that is written in place takes "
       "GroupQueryAttention)"},
      {"com.microsoft::MultiHeadAttention f[2,3,8] f[2,4,8] f[2,4,8] num_heads=2 unidirectional=1",
       "attribute 'unidirectional' needs as many keys as queries, got 4 and 3"},
      {"com.microsoft::Attention f[2,3] f[3,24] num_heads=2", "cannot project [2, 3] by [3, 24]"},
      {"com.microsoft::Attention f[2,3,5] f[5,25] num_heads=2",
       "weights [5, 25] do not split into queries, keys and values"},
      {"com.microsoft::Attention f[2,3,5] f[5,24] - - f[2,2,3,4] num_heads=2",
       "input 4 'x4' must be of shape [2, batch, heads, tokens, size]"},
      {"com.microsoft::QAttention u[2,3,5] u[5,24] f[24] f[2] f[] num_heads=2",
       "input 3 'x3' must be one number"},
      {"com.microsoft::QAttention u[2,3,5] u[6,24] f[24] f[] f[] num_heads=2",
       "cannot project [2, 3, 5] by [6, 24]"},
      {"com.microsoft::Attention f[2,3,5] f[5,24] num_heads=2 do_rotary=1",
       "attribute 'do_rotary' = 1 is not supported, expected 0"},
      {"com.microsoft::Attention f[2,3,5] f[5,24] num_heads=2 past_present_share_buffer=1",
       "attribute 'past_present_share_buffer' = 1 is not supported, expected 0"},
      {"com.microsoft::Attention f[2,3,5] f[5,24] - - - - j[1] num_heads=2",
       "input 6 'x6' is not supported (a cache that is written in place takes "
       "GroupQueryAttention)"},
  });
}

/// A step of one token behind caches of 9.
static std::string step(const std::string &rest) {
  return "com.microsoft::GroupQueryAttention f[2,1,32] f[2,1,16] f[2,1,16] f[2,2,9,8] f[2,2,9,8] " +
         rest + " num_heads=4 kv_num_heads=2";
}

TEST(RefusedContribNodes, GroupQueryAttention) {
  expectRefusals({
      {"com.microsoft::GroupQueryAttention f[2,3,8] num_heads=2 kv_num_heads=1",
       "input 5 '' is missing"},
      {step("j[2] j=10 sliding_window_cache=1 local_window_size=3"),
       "attribute 'sliding_window_cache' needs caches that are as long as all tokens together, 10, "
       "got 9: none is dropped from them"},
      {step("j[2] j=9 qk_output=1"), "attribute 'qk_output' = 1 is not supported, expected 0"},
      {step("j[2] j=9 kv_cache_bit_width=8"),
       "attribute 'kv_cache_bit_width' = 8 is not supported, expected 0"},
      {step("j[2] j=9 k_quant_type='PER_TENSOR'"),
       "attribute 'k_quant_type' must be NONE: caches of integers are not supported"},
      {step("j[2] j=9 - - - - - f[1]"), "input 12 'x12' is not supported (caches are of floats)"},
      {step("j[2] j=9 - - - - - - - - - j[2]"),
       "input 16 'x16' is not supported (seqlens_k alone tells what fills up a step)"},
      {"com.microsoft::GroupQueryAttention f[2,1,32] - - - - j[2] j=1 num_heads=3 kv_num_heads=2",
       "kv_num_heads must divide num_heads, and the query have 3 dimensions"},
      {"com.microsoft::GroupQueryAttention f[2,1,32] f[2,1,16] - - - j[2] j=1 num_heads=4 "
       "kv_num_heads=2",
       "key and value must be given together"},
      {"com.microsoft::GroupQueryAttention f[2,1,31] - - - - j[2] j=1 num_heads=4 kv_num_heads=2",
       "8 heads do not divide [2, 1, 31]"},
      {"com.microsoft::GroupQueryAttention f[2,1,32] f[2,3,16] f[2,3,16] - - j[2] j=1 num_heads=4 "
       "kv_num_heads=2",
       "there must be as many keys as queries, got 3 and 1"},
      {"com.microsoft::GroupQueryAttention f[2,1,32] f[2,1,16] f[2,1,16] f[2,2,9,8] - j[2] j=9 "
       "num_heads=4 kv_num_heads=2",
       "past key and value must be given together"},
      {"com.microsoft::GroupQueryAttention f[2,1,32] f[2,1,16] f[2,1,16] f[2,9,2,8] f[2,9,2,8] "
       "j[2] j=9 num_heads=4 kv_num_heads=2",
       "input 3 'x3' must be of shape [2, 2, 2, 8] and of the type of the key"},
      {step("j[3] j=9"), "input 5 'x5' must hold one number per batch entry"},
      {step("j[2] j{9,9}"), "input 6 'x6' must be a scalar"},
      {step("j[2] j=12"),
       "input 6 'x6' is 12, expected what a past of 9 and 1 tokens make together, or, for caches "
       "that do not grow, at least the tokens and at most the past (for which it is taken where "
       "its "
       "value is not known at compile time)"},
      {step("j[2] j=9 do_rotary=1"), "do_rotary needs tables of cosines and sines"},
      {step("j[2] j=9 f[9,5] f[9,5] do_rotary=1"),
       "cosines and sines must be of one shape [positions, at most 4], with a position for each of "
       "1 tokens, got [9, 5]"},
      {step("j[2] j=9 - - - f[4,9]"), "input 10 'x10' must have 4 dimensions"},
      {step("j[2] j=9 - - - - f[2]"), "input 11 'x11' must hold one number per head"},
      {step("j[2] j=9 - - - - - - - f[8]"), "norms of queries and keys must be given together"},
      {step("j[2] j=9 causal=0 local_window_size=4"), "a window needs causal attention"},
  });
}

/// Of 6 tokens of 8 channels, for 4 experts.
static std::string experts(const std::string &rest) {
  return "com.microsoft::MoE f[2,3,8] " + rest;
}

TEST(RefusedContribNodes, Experts) {
  expectRefusals({
      {"com.microsoft::MoE f[6] f[6,4] f[4,5,8] - f[4,8,5]",
       "input 0 'x0' must have 2 or 3 dimensions"},
      {experts("f[6,4] f[4,5,8]"), "input 4 '' is missing"},
      {experts("f[5,4] f[4,5,8] - f[4,8,5]"), "input 1 'x1' must be of shape [6, experts]"},
      {experts("f[6,4] f[4,5,8] - f[3,8,5]"), "input 4 'x4' must be of shape [4, 8, channels]"},
      {experts("f[6,4] f[4,5,8] - f[4,8,5] swiglu_fusion=1"),
       "attribute 'swiglu_fusion' must be 0, or with swiglu 1 or 2, not 1"},
      {experts("f[6,4] f[4,5,8] - f[4,8,5] activation_type='swiglu'"),
       "input 6 '' belongs to swiglu with swiglu_fusion=0"},
      {experts("f[6,4] f[4,5,8] - f[4,8,5] activation_type='swiglu' swiglu_fusion=2"),
       "input 2 'x2' must be of shape [4, 10, 8]"},
      {experts("f[6,4] f[4,5,8] f[4,8] f[4,8,5]"),
       "input 3 'x3' must hold one number for each row of input 2"},
      {experts("f[6,4] f[4,5,8] - f[4,8,5] use_sparse_mixer=1"),
       "attribute 'use_sparse_mixer' is not supported: onnxruntime's CPU ignores it"},
      {experts("f[6,4] f[4,5,8] - f[4,8,5] swiglu_limit_after_activation=1"),
       "attribute 'swiglu_limit_after_activation' is not supported: onnxruntime's CPU refuses it"},
      {experts("f[6,4] f[4,5,8] - f[4,8,5] k=5"), "attribute 'k' must be 1 to 4, not 5"},
      {experts("f[6,4] f[4,5,8] - f[4,8,5] activation_type='geglu'"),
       "attribute 'activation_type' must be relu, gelu, silu, swiglu or identity, not 'geglu'"},
  });
}

/// The same with weights of 4 bits, 6 channels between an expert's two layers.
static std::string packedExperts(const std::string &rest) {
  return "com.microsoft::QMoE f[2,3,8] f[6,4] u[4,6,4] " + rest;
}

TEST(RefusedContribNodes, PackedExperts) {
  const std::string weights = "f[4,6] - u[4,8,3] f[4,8]";
  expectRefusals({
      {packedExperts("f[4,6]"), "input 5 '' is missing"},
      {packedExperts("f[4,6] - u[4,6,4] f[4,8]"), "input 5 'x5' must be of shape [4, 8, bytes]"},
      {packedExperts("- - u[4,8,3] f[4,8]"), "input 3 '' is missing"},
      {packedExperts("f[4,6,1] - u[4,8,3] f[4,8]"), "input 3 'x3' must be of shape [4, 6]"},
      {packedExperts("f[4,6,2] - u[4,8,3] f[4,8] block_size=16"),
       "input 3 'x3' must be of shape [4, 6, 1]"},
      {packedExperts("f[4,6] - f[4,8,3] f[4,8]"), "input 5 'x5' must be of bytes"},
      {packedExperts("f[4,6] f[6] u[4,8,3] f[4,8]"),
       "input 4 'x4' must hold one number for each row of input 2"},
      {packedExperts("f[4,6] - u[4,8,3] f[4,8] - u[4,6,4]"),
       "input 8 'x8' belongs to swiglu with swiglu_fusion=0"},
      {packedExperts(weights + " - - - - u[4,2]"), "input 11 'x11' must be of shape [4, 3]"},
      {packedExperts(weights + " - - - - f[4,3]"), "input 11 'x11' must be of bytes"},
      {packedExperts(weights + " - - - - - - - f[6,3]"), "input 14 'x14' must be of shape [6, 4]"},
      {packedExperts(weights + " - - - - - - - - f[4]"),
       "input 15 'x15' belongs to weights of floats, which onnxruntime's CPU lacks"},
      {"com.microsoft::QMoE f[2,7] f[2,4] u[4,6,4] f[4,6] - u[4,7,3] f[4,7]",
       "input 2 'x2' must have rows of whole bytes, got 7 numbers of 4 bits"},
      {packedExperts(weights + " expert_weight_bits=8"), "input 2 'x2' must be of shape [4, 3, 8]"},
      {packedExperts(weights + " expert_weight_bits=3"),
       "attribute 'expert_weight_bits' must be 2, 4 or 8, not 3"},
      {packedExperts(weights + " fc2_expert_weight_bits=8"),
       "attribute 'fc2_expert_weight_bits' must be expert_weight_bits, 4, not 8: onnxruntime's CPU "
       "has one width for all layers"},
      {packedExperts(weights + " block_size=8"),
       "attribute 'block_size' must be a power of two from 16 on, not 8"},
      {packedExperts(weights + " quant_type='nvfp4'"),
       "attribute 'quant_type' must be 'int', not 'nvfp4': onnxruntime's CPU has weights of "
       "integers only"},
      {packedExperts(weights + " weights_prepacked=1"),
       "attribute 'weights_prepacked' = 1 is a GPU's own order of bytes; give the weights as they "
       "were before"},
      {packedExperts(weights + " use_sparse_mixer=1"),
       "attribute 'use_sparse_mixer' is not supported: onnxruntime's CPU ignores it"},
  });
}

/// Two tokens of 2 heads of queries, keys and values, of 4, 4 and 3 channels.
static std::string linearAttention(const std::string &rest) {
  return "com.microsoft::LinearAttention f[1,2,8] f[1,2,8] " + rest + " q_num_heads=2";
}

TEST(RefusedContribNodes, LinearAttention) {
  expectRefusals({
      {linearAttention("f[1,2,6] update_rule='linear' kv_num_heads=3"),
       "q_num_heads 2 and kv_num_heads 3 must be positive, and one divide the other"},
      {linearAttention("f[1,2,6] update_rule='ssm' kv_num_heads=2"),
       "attribute 'update_rule' must be linear, gated, delta or gated_delta, not 'ssm'"},
      {linearAttention("f[1,2,6] kv_num_heads=2"),
       "input 4 '' is missing, which update rule 'gated_delta' needs"},
      {linearAttention("f[1,2,6] update_rule='delta' kv_num_heads=2"),
       "input 5 '' is missing, which update rule 'delta' needs"},
      {linearAttention("f[1,2,6] - f[1,2,3] update_rule='gated' kv_num_heads=2"),
       "input 4 'x4' must hold one number per head or per channel of its keys"},
      {linearAttention("f[1,2,6] - - f[1,2,3] update_rule='delta' kv_num_heads=2"),
       "input 5 'x5' must hold one number per head, or one for all"},
      {linearAttention("f[1,2,7] update_rule='linear' kv_num_heads=2"),
       "input 2 'x2' must be of shape [1, 2, 2 heads of channels]"},
      {linearAttention("f[1,2,6] f[1,2,3,4] update_rule='linear' kv_num_heads=2"),
       "input 3 'x3' must be of shape [1, 2, 4, 3]"},
      {linearAttention("f[1,2,6] update_rule='linear' kv_num_heads=2 state_window=2"),
       "attribute 'state_window' = 2 is not supported, expected 0"},
      {linearAttention("f[1,2,6] update_rule='linear' kv_num_heads=1"),
       "input 1 'x1' must be of shape [1, 2, heads of 4 channels that divide 1]"},
      {"com.microsoft::LinearAttention f[1,2,7] f[1,2,8] f[1,2,6] q_num_heads=2 kv_num_heads=2 "
       "update_rule='linear'",
       "input 0 'x0' must be of shape [batch, tokens, 2 heads of channels]"},
      {"com.microsoft::LinearAttention f[1,9000,8] f[1,9000,8] f[1,9000,6] q_num_heads=2 "
       "kv_num_heads=2 update_rule='linear'",
       "sequence of 9000 steps cannot be unrolled (1 to 8192)"},
      {"com.microsoft::LinearAttentionGate f[1,2,4] f[2] f[4]",
       "input 1 'x1' must hold one number per head of input 0"},
      {"com.microsoft::LinearAttentionGate f[1,2,4] f[4] f[4] >2",
       "input 3 '' is missing, of which output 1 is made"},
      {"com.microsoft::CausalConvWithState f[1,4] f[4,1,3]", "input 0 'x0' must have 3 dimensions"},
      {"com.microsoft::CausalConvWithState f[1,4,5] f[3,1,3]",
       "input 1 'x1' must be of shape [4, 1, taps], 2 at least"},
      {"com.microsoft::CausalConvWithState f[1,4,5] f[4,1,3] f[5]",
       "input 2 'x2' must hold one number per channel"},
      {"com.microsoft::CausalConvWithState f[1,4,5] f[4,1,3] - f[1,4,3]",
       "input 3 'x3' must be of shape [1, 4, 2]"},
      {"com.microsoft::CausalConvWithState f[1,4,5] f[4,1,3] dilation=0",
       "attribute 'dilation' must be positive, not 0"},
      {"com.microsoft::CausalConvWithState f[1,4,5] f[4,1,3] activation='relu'",
       "attribute 'activation' must be silu, swish or none, not 'relu'"},
      {"com.microsoft::CausalConvWithState f[1,4,5] f[4,1,3] ndim=2",
       "attribute 'ndim' = 2 is not supported, expected 1"},
      {"com.microsoft::GatedRMSNorm f[2,6] f[4] f[2,6]",
       "input 0 'x0' must have groups of 4 channels"},
      {"com.microsoft::GatedRMSNorm f[2,6] f[1,6] f[2,6]", "input 1 'x1' must have one dimension"},
      {"com.microsoft::GatedRMSNorm f[2,6] f[6] f[6]", "input 2 'x2' must be of shape [2, 6]"},
      {"com.microsoft::GatedRMSNorm f[2,6] f[6] f[2,6] activation='relu'",
       "attribute 'activation' must be silu, swish or sigmoid, not 'relu'"},
      {"com.microsoft::GatedAdd f[2,6] f[6] f[2,1]",
       "input 1 'x1' must be of the shape of input 0"},
      {"com.microsoft::GatedAdd f[2,6] f[2,6] f[2,6]", "input 2 'x2' must be of shape [2, 1]"},
      {"com.microsoft::GatedAdd f[2,6] f[2,6] f[2,4] f[4,1]",
       "input 3 'x3' projects gates, which onnxruntime's CPU does not do"},
      {"com.microsoft::MRotaryEmbedding f[2,3,8] i[3,2,3] f[9,4] f[9,4] num_heads=1 "
       "mrope_section=[1,1,1]",
       "attribute 'mrope_section' must be three numbers that sum to 4"},
      {"com.microsoft::MRotaryEmbedding f[2,3,8] i[2,3] f[9,4] f[9,4] num_heads=1 "
       "mrope_section=[2,1,1]",
       "input 1 'x1' must be of shape [3, 2, 3]"},
      {"com.microsoft::MRotaryEmbedding f[2,3,8] i[3,2,3] f[9,4] f[9,4] num_heads=1 "
       "mrope_section=[2,1,1] mrope_layout=2",
       "attribute 'mrope_layout' must be 0 or 1, not 2"},
  });
}

TEST(RefusedContribNodes, ImagesAndMatrices) {
  expectRefusals({
      {"com.microsoft::CropAndResize f[2,3,7,6] f[4,4] j[4] j[2]",
       "input 3 'x3' must be known at compile time and of integers: shapes are static"},
      {"com.microsoft::CropAndResize f[2,3,7,6] f[4,4] j[3] j{5,5}",
       "needs an image [n, c, h, w], regions [k, 4], k batch indices and a height and a width of 1 "
       "to 65536"},
      {"com.microsoft::CropAndResize f[2,3,7,6] f[4,4] j[4] j{5,5} mode='cubic'",
       "attribute 'mode' must be bilinear or nearest, not 'cubic'"},
      {"com.microsoft::Inverse f[2,6,6]",
       "input 0 'x0' must hold square matrices of at most 5 rows: larger ones need pivoting, which "
       "has no operation"},
  });
}
