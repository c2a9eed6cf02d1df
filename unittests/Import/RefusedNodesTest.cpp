// SPDX-License-Identifier: Apache-2.0
// Nodes that import refuses, up to elementwise ones: for each way to be wrong one line, and what is
// said of it.
#include "ImportTest.h"
#include "NodeText.h"

using namespace autopar::test;

TEST(RefusedNodes, Activations) {
  expectRefusals({
      {"Celu f[3] alpha=0.0", "attribute 'alpha' must not be 0"},
      {"Gelu f[3] approximate='fast'", "attribute 'approximate' must be none or tanh, not 'fast'"},
      {"Gelu f[3] approximate=1", "attribute 'approximate' must be a string"},
      {"Dropout f[3] f=0.5 b{1,1}", "input 2 'x2' must be a scalar"},
      {"Dropout f[3] f{0.5,0.5} b=1", "input 1 'x1' must be a scalar"},
      {"Dropout f[3] f=1.5 b=1", "ratio must be at least 0 and below 1"},
  });
}

TEST(RefusedNodes, Attention) {
  expectRefusals({
      {"Attention f[2,3,7] f[2,3,8] f[2,3,8] q_num_heads=2 kv_num_heads=2",
       "2 heads do not divide [2, 3, 7]"},
      {"Attention f[2,3] f[2,3] f[2,3]",
       "query, key and value must be floats of 3 or 4 dimensions"},
      {"Attention i[1,2,3,4] i[1,2,3,4] i[1,2,3,4]",
       "query, key and value must be floats of 3 or 4 dimensions"},
      {"Attention f[1,2,3,4] f[1,2,3,4] f[1,2,3,4] - f[1,2,3,4]",
       "past key and value must be given together"},
      {"Attention f[1,2,3,4] f[1,2,3,4] f[1,2,3,4] - f[2,3,4] f[2,3,4]",
       "input 4 'x4' must have 4 dimensions"},
      {"Attention f[1,2,3,4] f[1,2,3,5] f[1,2,3,4]",
       "query [1, 2, 3, 4], key [1, 2, 3, 5] and value [1, 2, 3, 4] do not fit"},
      {"Attention f[1,2,3,4] f[1,2,3,4] f[1,2,3,4] softmax_precision=7",
       "attribute 'softmax_precision' must name a float type"},
      {"Attention f[1,2,3,4] f[1,2,3,4] f[1,2,3,4] qk_matmul_output_mode=4",
       "attribute 'qk_matmul_output_mode' must be 0 to 3, not 4"},
      {"RotaryEmbedding f[2,3] f[2,3,1] f[2,3,1]", "input 0 'x0' must have 3 or 4 dimensions"},
      {"RotaryEmbedding f[1,2,3,4] f[1,3,2] f[1,3,2] rotary_embedding_dim=6",
       "rotary_embedding_dim 6 does not fit head size 4"},
      {"RotaryEmbedding f[1,2,3,4] f[1,3,3] f[1,3,2]",
       "cosines and sines must be of shape [1, 3, 2], got [1, 3, 3]"},
      {"RotaryEmbedding f[2,2,3,4] f[2,3,2] f[3,3,2]",
       "cosines and sines must be of shape [2, 3, 2] or [1, 3, 2], got [3, 3, 2]"},
      {"TensorScatter f[2,4,8] f[2,9,8] i[2]",
       "update [2, 9, 8] does not fit cache [2, 4, 8], or the mode is unknown"},
      {"TensorScatter f[2,4,8] f[2,1,8] i[3]",
       "input 2 'x2' must hold one position per batch entry"},
      {"CausalConvWithState f[1,4,8] f[4,2,3]", "weight [4, 2, 3] does not fit input [1, 4, 8]"},
      {"CausalConvWithState f[1,4,8] f[4,1,3] activation='relu'",
       "attribute 'activation' must be none, silu or swish, not 'relu'"},
      {"LinearAttention f[1,4,8] f[1,4,8] f[1,4,8] update_rule='quadratic'",
       "attribute 'update_rule' must be linear, gated, delta or gated_delta, not 'quadratic'"},
      {"LinearAttention f[1,4,8] f[1,4,8] f[1,4,8] update_rule='gated'",
       "update_rule 'gated' does not fit the given decay and beta"},
      {"LinearAttention f[1,4,8] f[1,4,8] f[1,4,8] update_rule='linear' q_num_heads=3 "
       "kv_num_heads=2",
       "3 heads do not divide [1, 4, 8]"},
      {"LinearAttention f[1,4,12] f[1,4,8] f[1,4,8] update_rule='linear' q_num_heads=3 "
       "kv_num_heads=2",
       "kv_num_heads must divide q_num_heads, and the sequence have 1 to 8192 steps"},
      {"LinearAttention f[1,9000,12] f[1,9000,8] f[1,9000,8] update_rule='linear' q_num_heads=4 "
       "kv_num_heads=2",
       "kv_num_heads must divide q_num_heads, and the sequence have 1 to 8192 steps"},
  });
}

TEST(RefusedNodes, Classical) {
  expectRefusals({
      {"ai.onnx.ml::Normalizer f[]", "input 0 'x0' must have at least 1 dimension"},
      {"ai.onnx.ml::Normalizer f[3] norm='L3'", "attribute 'norm' must be MAX, L1 or L2, not 'L3'"},
      {"ai.onnx.ml::LinearRegressor f[2,3] coefficients=[1.0,2.0]",
       "needs an input [n, features] and targets x features coefficients"},
      {"ai.onnx.ml::LinearRegressor f[2,3] coefficients=[1.0,2.0,3.0] post_transform='PROBIT'",
       "attribute 'post_transform' = 'PROBIT' is not supported"},
      {"ai.onnx.ml::ArrayFeatureExtractor f[] i{0}", "input 0 'x0' must have at least 1 dimension"},
      {"ai.onnx.ml::FeatureVectorizer f[3]", "input 0 'x0' must be of shape [n, features]"},
      {"ai.onnx.ml::FeatureVectorizer f[3,2] inputdimensions=[2,2]",
       "attribute 'inputdimensions' must have one entry per input"},
      {"ai.onnx.ml::TreeEnsemble f[3]", "unsupported: ai.onnx.ml::TreeEnsemble version 1 (decides "
                                        "sample by sample, which is no tensor operation)"},
      {"ai.onnx.ml::LabelEncoder f[3]",
       "unsupported: ai.onnx.ml::LabelEncoder version 1 (works on maps, strings or labels, which "
       "have no type in the dialect)"},
      {"ai.onnx.ml::Scaler f[2,3] scale=[1.0,2.0]", "attribute 'scale' must hold 1 or 3 numbers"},
      {"ai.onnx.preview::FlexAttention f[1,3,3,4] f[1,2,3,4] f[1,2,3,4]",
       "query [1, 3, 3, 4], key [1, 2, 3, 4] and value [1, 2, 3, 4] do not fit"},
      {"ai.onnx.preview::FlexAttention f[1,2,3,4] f[1,2,3,4] f[1,2,3,4] softmax_precision=7",
       "attribute 'softmax_precision' must name a float type"},
      {"ai.onnx.preview::FlexAttention f[1,2,3,4] f[1,2,3,4] f[1,2,3,4] score_mod=1",
       "attribute 'score_mod' must be a graph"},
  });
}

TEST(RefusedNodes, Constants) {
  expectRefusals({
      {"Constant", "has no value of a supported kind (strings and sparse tensors are none)"},
      {"Constant value_floats=[1,2]", "attribute 'value_floats' must be a list of floats"},
      {"Constant value=1", "attribute 'value' must be a tensor"},
      {"ConstantOfShape i{2,-1}", "input 0 'x0' has a negative extent"},
      {"ConstantOfShape i[2]",
       "input 0 'x0' must be known at compile time and of integers: shapes are static"},
      {"Range i=0 i=5 i=0", "start, limit and delta must be scalars, delta not zero"},
      {"Range f=0 f=5 f=0", "start, limit and delta must be scalars, delta not zero"},
      {"Range i=0 i=2000000000000 i=1", "has too many elements"},
      {"Range f=0 f=3e18 f=1", "has too many elements"},
      {"Range i[1] i=5 i=1",
       "input 0 'x0' must be known at compile time and of integers: shapes are static"},
      {"EyeLike f[3]", "input 0 'x0' must be of rank 2"},
      {"RandomUniform dtype=7 shape=[2]", "draws floats only"},
      {"RandomUniform", "attribute 'shape' is missing"},
      {"RandomUniform shape=2", "attribute 'shape' must be a list of integers"},
      {"Multinomial f[3]", "input 0 'x0' must be of rank 2"},
      {"Multinomial f[3,2] sample_size=0", "needs at least one sample and one class"},
  });
}

TEST(RefusedNodes, Contractions) {
  expectRefusals({
      {"MatMul f[2,3,4] f[3,4,5]", "batch dimensions of [2, 3, 4] and [3, 4, 5] do not broadcast"},
      {"MatMul f[] f[3]", "needs operands of at least one dimension"},
      {"MatMul f[2,3] f[4,2]", "cannot multiply [2, 3] by [4, 2]"},
      {"Gemm f[2,3,4] f[3,4]", "needs matrices, got [2, 3, 4] and [3, 4]"},
      {"Gemm f[2,3] f[4,2]", "cannot multiply [2, 3] by [4, 2]"},
      {"Einsum f[2,3] f[4,2] equation='ij,jk->ik'", "letter 'j' has extents 3 and 4"},
      {"Einsum f[2,3] equation='ii->i'", "letter 'i' has extents 2 and 3"},
      {"Einsum f[2,3] equation='ijk->i'", "term 'ijk' does not fit an operand of rank 2"},
      {"Einsum f[2,3] equation='ij,jk->ik'", "equation 'ij,jk->ik' has 2 terms for 1 inputs"},
      {"Einsum f[2,3] equation='i1->i'", "'1' in term 'i1' is no letter"},
      {"Einsum f[2,3] equation='ij->ik'",
       "output letter 'k' of equation 'ij->ik' stands in no input, or twice"},
      {"Einsum f[2,3] equation='ij->ii'",
       "output letter 'i' of equation 'ij->ii' stands in no input, or twice"},
  });
}

TEST(RefusedNodes, Convolutions) {
  expectRefusals({
      {"Conv f[1,3,8,8] f[4,3,3,3] group=2", "attribute 'group' = 2 does not divide 3 channels"},
      {"Conv f[2,3] f[4,3]",
       "needs an image and a filter of one rank of at least 3, got [2, 3] and [4, 3]"},
      {"Conv f[1,3,8,8] f[4,2,3,3]",
       "filter [4, 2, 3, 3] in 1 groups does not fit image [1, 3, 8, 8]"},
      {"Conv f[1,3,8,8] f[4,3,3,3] kernel_shape=[5,5]",
       "attribute 'kernel_shape' differs from the filter [4, 3, 3, 3]"},
      {"Conv f[1,3,8,8] f[4,3,3,3] pads=[1,1]",
       "attribute 'pads' must hold 4 numbers that are not negative"},
      {"Conv f[1,3,8,8] f[4,3,3,3] auto_pad='SAME'",
       "attribute 'auto_pad' must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not 'SAME'"},
      {"Conv f[1,3,8,8] f[4,3,3,3] strides=[0,1]",
       "attribute 'strides' must hold 2 positive numbers"},
      {"ConvTranspose f[1,3,8,8] f[4,3,3,3]",
       "filter [4, 3, 3, 3] does not fit image [1, 3, 8, 8]"},
      {"ConvTranspose f[1,3,8,8] f[3,4,3,3] output_padding=[1]",
       "output_padding and output_shape must have 2 entries that are not negative"},
      {"ConvTranspose f[1,3,8,8] f[3,4,3,3] output_shape=[16]",
       "output_padding and output_shape must have 2 entries that are not negative"},
      {"Col2Im f[1,5] i{4,4} i{2,2}",
       "needs columns [n, c * block, positions] and an extent of image and block per dimension"},
      {"Col2Im f[1,8,8] i{4,4} i{2,2}", "columns [1, 8, 8] do not fit 9 blocks of 4"},
      {"Col2Im f[1,6,9] i{4,4} i{2,2}", "columns [1, 6, 9] do not fit 9 blocks of 4"},
      {"Col2Im f[1,8,9] i{1048576,1048576} i{2,2}", "the image is too large"},
      {"Col2Im f[1,4,1099510579201] i{1048576,1048576,1048576} i{1,1,1}", "the image is too large"},
  });
}

TEST(RefusedNodes, Elementwise) {
  expectRefusals({
      {"Add f[3] d[3]", "operands tensor<3xf32> and tensor<3xf64> differ in element type"},
      {"Max f[3] d[3]", "operands tensor<3xf32> and tensor<3xf64> differ in element type"},
      {"Concat f[3] d[3] axis=0", "operands of concat differ in element type"},
      {"Add f[2] f[3]", "operands tensor<2xf32> and tensor<3xf32> do not broadcast to each other"},
      {"Add f[2,3] f[3] axis=5 broadcast=1 @6", "axis 5 is out of range"},
      {"Less f[2] i[2]", "inputs differ in element type"},
      {"Less f[2] f[3]", "operands [2] and [3] do not broadcast to each other"},
      {"BitShift u[3] u[3] direction='UP'",
       "attribute 'direction' must be LEFT or RIGHT, not 'UP'"},
      {"Where b[3] f[3] d[3]", "inputs 1 and 2 differ in element type"},
      {"Where f[3] f[3] f[3]", "input 0 'x0' must be of booleans"},
      {"Where b[3] f[2] f[2]", "operands [3], [2] and [2] do not broadcast to each other"},
      {"Cast f[3]", "attribute 'to' is missing"},
      {"Clip f[3] f{0.0,1.0}", "bounds must be scalars"},
      {"Clip f[3] f[2]", "bounds must be scalars"},
      {"Floor f[3] >2", "output 1 'y1' is not supported"},
      {"Relu f[3] >0", "has no outputs"},
      {"Relu -", "has 0 inputs, expected 1"},
      {"Relu f[3] slope=0.5", "attribute 'slope' is unknown, known are: consumed_inputs"},
      {"EyeLike f[3,3] dtype=16777", "element type UNDEFINED is not supported"},
      {"EyeLike f[3,3] dtype=8", "element type STRING is not supported"},
  });
}
