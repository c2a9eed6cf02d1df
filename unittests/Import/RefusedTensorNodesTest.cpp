// SPDX-License-Identifier: Apache-2.0
// Nodes that import refuses, from indexing on: for each way to be wrong one line, and what is said
// of it.
#include "ImportTest.h"
#include "NodeText.h"

using namespace autopar::test;

TEST(RefusedNodes, Indexing) {
  expectRefusals({
      {"GatherND f[2,3] i[2,1] batch_dims=2", "batch_dims 2 is out of range"},
      {"GatherND f[2,3] i[2,3]", "input 1 'x1' indexes 3 dimensions, input 0 has 2"},
      {"GatherND f[2,3] i[1,3]", "input 1 'x1' indexes 3 dimensions, input 0 has 2"},
      {"Gather f[3] i{5}", "input 1 'x1' holds 5, but the gathered extent is 3"},
      {"Gather f[3] i{-4}", "input 1 'x1' holds -4, but the gathered extent is 3"},
      {"ScatterElements f[3] i[3] f[3] reduction='sum'",
       "attribute 'reduction' must be none, add, mul, max or min, not 'sum'"},
      {"ScatterND f[3] i[1,1] f[1] reduction='sum'",
       "attribute 'reduction' must be none, add, mul, max or min, not 'sum'"},
      {"Slice f[4] i{0} i{1,2}", "needs as many ends as starts"},
      {"Slice f[4] i{0} i{2} i{0,1}", "needs as many axes and steps as starts"},
      {"Slice f[4] i{0} i{2} i{0} i{1,1}", "needs as many axes and steps as starts"},
      {"Slice f[4] i{0} i{2} i{0} i{0}", "step is zero"},
      {"Slice f[4] i{0} i{2} i{3}", "axis 3 is out of range for rank 1"},
      {"Slice f[4,4] i{0,0} i{2,2} i{0,0}", "an axis is repeated"},
      {"Pad f[4] i{5000000,0} mode='edge'", "pads a dimension of extent 4 that cannot be repeated"},
      {"Pad f[4] i{-9223372036854775808,0}", "pads are too large"},
      {"Pad f[4] mode='edge' @10", "has no pads"},
      {"Pad f[4] i{9223372036854775807,1}", "pads are too large"},
      {"Pad f[4] i{-3,-3}", "pads cut more than dimension 0 holds"},
      {"Pad f[4] i{1,1} mode='mirror'",
       "attribute 'mode' must be constant, edge, reflect or wrap, not 'mirror'"},
      {"Pad f[4]", "has 1 input, expected 2 to 4"},
      {"Pad f[4] i{1}", "needs 2 pads, has 1"},
      {"Pad f[4] i{1,1} f{1.0,2.0}", "input 2 'x2' must be one element of the type of input 0"},
      {"CenterCropPad f[4,4] i{2}", "needs one extent per axis"},
      {"CenterCropPad f[4,4] i{2,-1}", "shape [2, -1] is negative or too large"},
      {"Trilu f[4]", "input 0 'x0' must have at least 2 dimensions"},
      {"Trilu f[4,4] i{1,2}", "input 1 'x1' must be a scalar"},
      {"OneHot i[3] i{2,2} f{0.0,1.0}",
       "input 1 'x1' must be one positive number known at compile time"},
      {"OneHot i[3] i=4 f{0.0}", "input 2 'x2' must hold two values, off and on"},
      {"ReverseSequence f[4,2] i[2] batch_axis=0 time_axis=0",
       "needs different batch and time axes, and one length per batch entry"},
      {"ReverseSequence f[4,2] i[3]",
       "needs different batch and time axes, and one length per batch entry"},
  });
}

TEST(RefusedNodes, Losses) {
  expectRefusals({
      {"SoftmaxCrossEntropyLoss f[4,10] i[5]", "labels [5] do not fit scores [4, 10]"},
      {"SoftmaxCrossEntropyLoss f[4,10] i[4] f[9]", "input 2 'x2' must hold one weight per class"},
      {"SoftmaxCrossEntropyLoss f[4,10] i[4] reduction='total'",
       "attribute 'reduction' must be none, sum or mean, not 'total'"},
      {"NegativeLogLikelihoodLoss f[4] i[4]", "labels [4] do not fit scores [4]"},
  });
}

TEST(RefusedNodes, Normalizations) {
  expectRefusals({
      {"BatchNormalization f[4] f[4] f[4] f[4] f[4]",
       "input 0 'x0' must have at least 2 dimensions"},
      {"BatchNormalization f[2,4] f[3] f[4] f[4] f[4]",
       "input 1 'x1' must hold one number per channel (4)"},
      {"BatchNormalization f[2,4] f[4] f[4] f[4] f[4] spatial=0 @7",
       "attribute 'spatial' = 0 is not supported"},
      {"LayerNormalization i[2,4] i[4]", "input 0 'x0' must be of floats"},
      {"LayerNormalization f[2,4] f[5]",
       "operands tensor<2x4xf32> and tensor<5xf32> do not broadcast to each other"},
      {"InstanceNormalization f[2,4] f[4] f[4]", "input 0 'x0' must have at least 3 dimensions"},
      {"GroupNormalization f[2,4,3] f[4] f[4] num_groups=3",
       "num_groups 3 must divide the channels of input [2, 4, 3]"},
      {"LpNormalization f[2,4] p=3", "attribute 'p' must be 1 or 2"},
      {"LRN f[2,4] size=0", "needs a positive size and an input of at least 2 dimensions"},
      {"MeanVarianceNormalization i[2,3,4,4]", "input 0 'x0' must be of floats"},
      {"RMSNormalization i[2,4] i[4]", "input 0 'x0' must be of floats"},
  });
}

TEST(RefusedNodes, Pooling) {
  expectRefusals({
      {"MaxPool f[2,4] kernel_shape=[2]", "input 0 'x0' must have at least 3 dimensions"},
      {"MaxPool f[2,4,8,8]", "attribute 'kernel_shape' is missing"},
      {"AveragePool f[1,1,1000000] kernel_shape=[900000]", "the window is too large"},
      {"AveragePool f[1,1,4294967296] kernel_shape=[2]",
       "spatial extents or window are too large or empty"},
      {"MaxPool f[2,4,3,8] kernel_shape=[5,2] pads=[0,0,1,0]",
       "the window has 5 elements along spatial dimension 0, the input with its pads only 4"},
      {"Conv f[2,4,3,8] f[4,4,5,2]",
       "the window has 5 elements along spatial dimension 0, the input with its pads only 3"},
      {"MaxPool f[2,4,8,8] kernel_shape=[0,2]",
       "attribute 'kernel_shape' must hold 2 positive numbers"},
      {"GlobalLpPool f[2,4,8,8] p=0.0 @1", "attribute 'p' must be positive"},
      {"LpPool f[2,4,8,8] kernel_shape=[2,2] p=0", "attribute 'p' must be positive"},
      {"LpPool f[2,4,8,8] p=0", "attribute 'kernel_shape' is missing"},
      {"MaxUnpool f[1,1] i[1,1] kernel_shape=[2]",
       "needs an input of at least 3 dimensions and an index for each element"},
      {"MaxUnpool f[1,1,2] i[1,1,2] i{1,4} kernel_shape=[2]", "input 2 'x2' must have 3 entries"},
      {"AveragePool f[2,4] kernel_shape=[2]", "input 0 'x0' must have at least 3 dimensions"},
  });
}

TEST(RefusedNodes, ContribProducts) {
  expectRefusals({
      {"com.microsoft::FusedGemm f[2,3] f[3,4] activation='Swoosh'",
       "activation 'Swoosh' is unknown"},
      {"com.microsoft::FusedGemm f[2,3] f[4,4]", "cannot multiply [2, 3] by [4, 4]"},
      {"com.microsoft::FusedMatMul f[2,3] f[4,3]", "cannot multiply [2, 3] by [4, 3]"},
      {"com.microsoft::FusedConv f[1,2,4,4] f[2,2,3,3] activation='Clip'",
       "activation 'Clip' needs two activation_params"},
      {"com.microsoft::NhwcConv f[1,2,4,4] f[2,2,3,3]",
       "filter [2, 2, 3, 3] in 1 groups does not fit image [1, 4, 2, 4]"},
      {"com.microsoft::NhwcMaxPool u[2,4] kernel_shape=[2,2]",
       "input 0 'x0' must have at least 3 dimensions"},
  });
}

TEST(RefusedNodes, ContribQuantization) {
  expectRefusals({
      {"com.microsoft::QLinearAdd u[4] f[4] u[] u[4] f[] u[] f[] u[]",
       "input 1 'x1' must be one number"},
      {"com.microsoft::QLinearAdd u[4] f[] u[4] u[4] f[] u[] f[] u[]",
       "input 2 'x2' must be one number"},
      {"com.microsoft::QLinearAdd u[4] f[] u[] u[4] f[] u[]", "input 6 '' is missing"},
      {"com.microsoft::QLinearAdd f[4] f[] u[] u[4] f[] u[] f[] u[]",
       "input 0 'x0' must be of integers of 2 to 32 bits"},
      {"com.microsoft::QLinearMul u[4] f[] u[] - f[] u[] f[] u[]",
       "input 3 '' must be of integers of 2 to 32 bits"},
      {"com.microsoft::QLinearSigmoid u[4] f[] u[] f[] f[]",
       "input 4 'x4' must be of integers of 2 to 32 bits"},
      {"com.microsoft::QLinearConcat f[] u[] u[4] f[] axis=0",
       "needs a scale and a zero point of the result, and with each tensor its own"},
      {"com.microsoft::QLinearConcat f[] u[] u[4] f[] u[] axis=1",
       "axis 1 is out of range for rank 1"},
      {"com.microsoft::QLinearGlobalAveragePool u[2,3] f[] u[] f[] u[]",
       "input 0 'x0' must have at least 3 dimensions"},
      {"com.microsoft::QGemm u[2,3] f[] u[] u[4,3] f[] u[]", "cannot multiply [2, 3] by [4, 3]"},
      {"com.microsoft::QGemm u[3] f[] u[] u[4,3] f[] u[]", "needs matrices, got [3] and [4, 3]"},
      {"com.microsoft::MatMulIntegerToFloat u[2,3] u[3,4] f[3] f[]",
       "input 2 'x2' must be one number"},
  });
}

TEST(RefusedNodes, ContribTensors) {
  expectRefusals({
      {"com.microsoft::CDist f[2,3] f[4,3] metric='cosine'",
       "attribute 'metric' must be euclidean or sqeuclidean, not 'cosine'"},
      {"com.microsoft::CDist f[2,3] f[4,4]",
       "needs matrices of as many columns, got [2, 3] and [4, 4]"},
      {"com.microsoft::ComplexMul f[4,2] f[4,3]",
       "input 1 'x1' must have a last dimension of 2, the real and imaginary parts"},
      {"com.microsoft::UnfoldTensor f[4,3] size=4",
       "windows of 4 positions, 1 apart, do not fit [4, 3]"},
      {"com.microsoft::IsAllFinite f[3] i[3]", "input 1 'x1' must be of floats"},
      {"com.microsoft::IsAllFinite f[3] isinf_only=1 isnan_only=1",
       "attributes 'isinf_only' and 'isnan_only' exclude each other"},
      {"com.microsoft::BiasDropout f[3] f[3] - f=0.5 b=1",
       "is imported for inference only; give the model as it was before onnxruntime's optimizer"},
      {"com.microsoft::BitmaskDropout f[3] f=0.5 b{0,0}", "input 2 'x2' must be a scalar"},
      {"com.microsoft::BitmaskDropout f[3] >2", "output 1 'y1' is not supported"},
  });
}

TEST(RefusedNodes, ContribWeights) {
  expectRefusals({
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] K=32 N=8 block_size=8",
       "attribute 'block_size' must be a power of two from 16 on, not 8"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] K=32 N=8 block_size=24",
       "attribute 'block_size' must be a power of two from 16 on, not 24"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] K=32 block_size=16",
       "attributes 'N' and 'K' must be positive"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] K=32 N=8 bits=3 block_size=16",
       "attribute 'bits' must be 2, 4 or 8, not 3"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] K=32 N=8 block_size=16 "
       "weight_prepacked=1",
       "attribute 'weight_prepacked' = 1 is a GPU's own order of bytes; give the weight as it was "
       "before"},
      {"com.microsoft::MatMulNBits f[2,32] u[7,2,8] f[8,2] K=32 N=8 block_size=16",
       "input 1 'x1' must be bytes of shape [8, 2, 8]"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,3] K=32 N=8 block_size=16",
       "input 2 'x2' must hold 16 elements, one scale per block"},
      {"com.microsoft::MatMulNBits f[2,31] u[8,2,8] f[8,2] K=32 N=8 block_size=16",
       "input 0 'x0' must have 32 columns"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] u[8,2] K=32 N=8 block_size=16",
       "input 3 'x3' must hold 8 elements, zero points of 4 bits per row"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] f[8] K=32 N=8 block_size=16",
       "input 3 'x3' must hold 16 elements, one zero point per block"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] - j[31] K=32 N=8 block_size=16",
       "input 4 'x4' must hold the group of each of 32 columns"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] u[8,1] j[32] K=32 N=8 block_size=16",
       "input 3 'x3' is packed, which onnxruntime reads in several ways where there is g_idx; give "
       "zero points of the type of A"},
      {"com.microsoft::MatMulBnb4 f[2,32] u[128] f[8] K=32 N=8 block_size=32 quant_type=2",
       "attribute 'quant_type' must be 0 (FP4) or 1 (NF4)"},
      {"com.microsoft::MatMulBnb4 f[2,32] u[128] f[8] K=32 block_size=32 quant_type=1",
       "attributes 'N', 'K' and 'block_size' must be positive"},
      {"com.microsoft::MatMulBnb4 f[2,32] u[127] f[8] K=32 N=8 block_size=32 quant_type=1",
       "needs 128 bytes of weights and 8 magnitudes for them"},
      {"com.microsoft::MatMulBnb4 f[2,31] u[128] f[8] K=32 N=8 block_size=32 quant_type=1",
       "input 0 'x0' must have 32 columns"},
      {"com.microsoft::MatMulBnb4 f[2,8] u[128] f[8] K=32 N=8 block_size=32 quant_type=1 transB=0",
       "attribute 'transB' = 0, of the pass back of a training, is not supported"},
      {"com.microsoft::GatherBlockQuantized f[8,16] i[2] f[8,1]",
       "input 0 'x0' must be of bytes or of integers of 4 bits"},
      {"com.microsoft::GatherBlockQuantized u[8,16] i[2] f[8,1] bits=3",
       "attribute 'bits' must be 2, 4 or 8, not 3"},
      {"com.microsoft::GatherBlockQuantized u[8,16] i[2] f[8,1] gather_axis=1 quantize_axis=0",
       "gathers along dimension 1, in which numbers lie in blocks or bytes"},
      {"com.microsoft::GatherBlockQuantized n[8,16] i[2] f[8,1] gather_axis=1",
       "gathers along dimension 1, in which numbers lie in blocks or bytes"},
      {"com.microsoft::GatherBlockQuantized u[8,16] i[2] f[8,1] block_size=0",
       "attribute 'block_size' must be positive"},
      {"com.microsoft::GatherBlockQuantized u[8,16] i[2] f[8,1] block_size=16",
       "input 2 'x2' must be of shape [8, 2]"},
      {"com.microsoft::GatherBlockQuantized u[8,16] i[2] f[8,2] u[8,2] block_size=16",
       "input 3 'x3' must be of shape [8, 1]"},
      {"com.microsoft::MatMulNBits f[2,32] u[8,2,8] f[8,2] - - f[7] K=32 N=8 block_size=16",
       "input 5 'x5' must hold 8 elements, one per column of the result"},
  });
}

TEST(RefusedNodes, Quantization) {
  expectRefusals({
      {"DequantizeLinear u[2,4] f[3] axis=1", "input 1 'x1' must hold 4 numbers, one along axis 1"},
      {"DequantizeLinear u[2,4] f[2,3] axis=1 block_size=2",
       "input 1 'x1' of shape [2, 3] does not fit input [2, 4]"},
      {"QuantizeLinear f[2,4] f[] output_dtype=1",
       "quantizes to integers of 2 to 32 bits and floats of 8 bits and less only"},
      {"DequantizeLinear f[2,4] f[]",
       "input 0 'x0' must be of integers of 2 to 32 bits or floats of 8 bits and less"},
      {"QLinearMatMul u[2,3] f[] u[] u[3,4] f[] u[] f[] f[]",
       "input 7 'x7' must be of integers of 2 to 32 bits"},
      {"DequantizeLinear u[2,33554433] f[2,16777217] axis=1 block_size=2",
       "the quantized axis is too long"},
  });
}

TEST(RefusedNodes, Recurrent) {
  expectRefusals({
      {"LSTM f[4,2] f[1,20,3] f[1,20,5] hidden_size=5 >3", "X, W and R must have 3 dimensions"},
      {"LSTM f[4,2,3] f[1,20,3] f[1,20,5] hidden_size=5 direction='up' >3",
       "attribute 'direction' must be forward, reverse or bidirectional, not 'up'"},
      {"LSTM f[4,2,3] f[1,20,4] f[1,20,5] hidden_size=5 >3",
       "W [1, 20, 4] and R [1, 20, 5] do not fit input [4, 2, 3]"},
      {"com.microsoft::DynamicQuantizeLSTM f[4,2,3] u[1,20,3] u[1,20,5] - - - - - f[1] u[1] f[1] "
       "u[1] hidden_size=5 >3",
       "W [1, 20, 3] and R [1, 20, 5] do not fit input [4, 2, 3]"},
      {"com.microsoft::DynamicQuantizeLSTM f[4,2,3] u[1,3,20] u[1,5,20] - - - - - f[2] u[1] f[1] "
       "u[1] hidden_size=5 >3",
       "input 8 'x8' must be of shape [1] or [1, 20]"},
      {"com.microsoft::DynamicQuantizeLSTM f[4,2,3] u[1,3,20] u[1,5,20] - - - - - f[1] u[1] "
       "hidden_size=5 >3",
       "input 10 '' is missing"},
      {"LSTM f[4,2,3] f[1,20,3] f[1,20,5] f[1,30] hidden_size=5 >3",
       "input 3 'x3' must be of shape [1, 40]"},
      {"LSTM f[9000,2,3] f[1,20,3] f[1,20,5] hidden_size=5 >3",
       "sequence of 9000 steps cannot be unrolled (1 to 8192)"},
      {"LSTM f[4,2,3] f[1,20,3] f[1,20,5] - j[3] hidden_size=5 >3",
       "input 4 'x4' must hold one length per batch entry"},
      {"LSTM f[4,2,3] f[1,20,3] f[1,20,5] hidden_size=5 activations=1 >3",
       "attribute 'activations' must be a list of strings"},
      {"LSTM f[4,2,3] f[1,20,3] f[1,20,5] hidden_size=5 activations=['Tanh'] >3",
       "attribute 'activations' must have 3 entries"},
      {"LSTM f[4,2,3] f[1,20,3] f[1,20,5] hidden_size=5 activations=['Sigmoid','Tanh','Sine'] >3",
       "activation 'Sine' is unknown"},
      {"LSTM f[4,2,3] f[1,20,3] f[1,20,5] - - f[1,2,4] hidden_size=5 >3",
       "input 5 'x5' must be of shape [1, 2, 5]"},
      {"LSTM f[4,2,3] f[1,20,3] f[1,20,5] - - - - f[1,10] hidden_size=5 >3",
       "input 7 'x7' must be of shape [1, 15]"},
  });
}

TEST(RefusedNodes, Reductions) {
  expectRefusals({
      {"CumSum f[4] i{0,1}", "input 1 'x1' must be a scalar"},
      {"CumSum f[4] i[1]",
       "input 1 'x1' must be known at compile time and of integers: shapes are static"},
      {"TopK f[4] i{1,2} >2", "k must be one number from 0 to 4"},
      {"TopK f[4] i{5} >2", "k must be one number from 0 to 4"},
      {"ReduceSum f[4] i{0,0}", "an axis is repeated"},
      {"ReduceSum f[4] i{1}", "axis 1 is out of range for rank 1"},
      {"ReduceSum f[4] f{1.0}",
       "input 1 'x1' must be known at compile time and of integers: shapes are static"},
      {"TopK f[4] f{1.0} >2",
       "input 1 'x1' must be known at compile time and of integers: shapes are static"},
  });
}

TEST(RefusedNodes, Resize) {
  expectRefusals({
      {"Resize f[1,1,4,4] - - i{1,1,8,8} coordinate_transformation_mode='centre'",
       "attribute 'coordinate_transformation_mode' = 'centre' is unknown"},
      {"Resize f[1,1,4,4] - - i{1,1,8,8} nearest_mode='round'",
       "attribute 'nearest_mode' = 'round' is unknown"},
      {"Resize f[1,1,4,4] - f[4]",
       "input 2 'x2' must be known at compile time and of floats: shapes are static"},
      {"Resize f[1,1,4,4] - f{1.0,1.0,1e12,1.0}", "scales must be positive"},
      {"Resize f[1,1,4,4] - - i{1,1,8,8} keep_aspect_ratio_policy='wide'",
       "attribute 'keep_aspect_ratio_policy' must be stretch, not_larger or not_smaller, not "
       "'wide'"},
      {"Resize f[1,1,4,4]", "has neither scales nor sizes"},
      {"Resize f[1,1,4,4] - f{2.0,2.0}", "needs one scale or size per dimension"},
      {"Resize f[1,1,4,4] - f{1.0,1.0,0.0,2.0}", "scales must be positive"},
      {"Resize f[1,1,4,4] - f{1.0,1.0,2.0,2.0} mode='area'",
       "attribute 'mode' must be nearest, linear or cubic, not 'area'"},
      {"Resize f[1,1,4,4] - f{1.0,1.0,2.0,2.0} coordinate_transformation_mode='tf_crop_and_resize'",
       "input 1 '' is needed for tf_crop_and_resize"},
      {"Resize f[1,1,4,4] f{0.0,0.0,1.0} f{1.0,1.0,2.0,2.0} "
       "coordinate_transformation_mode='tf_crop_and_resize'",
       "input 1 'x1' must hold a start and an end per dimension"},
      {"Resize f[1,1,4,4] - - i{1,1,0,8}", "cannot resize extent 4 to 0"},
      {"Resize f[8192] - - i{4096} mode='linear' antialias=1",
       "cannot resize extent 8192 to 4096: too many weights"},
      {"Upsample f[1,1,4,4] scales=[2.0,2.0] @7", "needs one scale per dimension"},
      {"Upsample f[1,1,4,4] f{0.0,1.0,1.0,1.0} @9", "scales must be positive"},
  });
}

TEST(RefusedNodes, Sampling) {
  expectRefusals({
      {"GridSample f[1,1,4,4] f[1,2,2,2] padding_mode='wrap'",
       "mode 'linear' or padding_mode 'wrap' is unknown"},
      {"GridSample f[1,1,4,4] f[1,4,4,3]", "grid [1, 4, 4, 3] does not fit image [1, 1, 4, 4]"},
      {"RoiAlign f[1,1,4,4] f[2,4] i[2] sampling_ratio=0",
       "needs sampling_ratio from 1 to 64: with 0 the number of samples depends on run-time "
       "values"},
      {"RoiAlign f[1,1,4,4] f[2,5] i[2] sampling_ratio=1",
       "needs an image [n, c, h, w], regions [k, 4] and k batch indices, mode avg or max"},
      {"AffineGrid f[1,2,4] i{1,1,4,4}",
       "needs matrices [n, 2, 3] or [n, 3, 4] and a size to match"},
      {"MaxRoiPool f[1,1,4,4] f[2,5] pooled_shape=[2,2]",
       "unsupported: ai.onnx::MaxRoiPool version 27 (its bins depend on run-time values; RoiAlign "
       "is supported)"},
      {"DeformConv f[1,1,4,4] f[1,2,3,3] f[1,18,2,2]",
       "filter [1, 2, 3, 3] in 1 and 1 groups does not fit image [1, 1, 4, 4]"},
      {"DeformConv f[1,1,4,4] f[1,1,3,3] f[1,18,2,2] kernel_shape=[3,2]",
       "attribute 'kernel_shape' differs from the filter [1, 1, 3, 3]"},
      {"DeformConv f[1,1,4,4] f[1,1,3,3] f[1,9,2,2]",
       "input 2 'x2' must be of shape [1, 18, 2, 2]"},
      {"DeformConv f[1,1,4,4] f[1,1,3,3] f[1,18,2,2] - f[1,8,2,2]",
       "input 4 'x4' must be of shape [1, 9, 2, 2]"},
  });
}

TEST(RefusedNodes, Sequences) {
  expectRefusals({
      {"SequenceLength f[3]", "input 0 'x0' must be a sequence"},
      {"SequenceAt f[3] i=0", "input 0 'x0' must be a sequence"},
      {"SplitToSequence f[4] i=0", "input 1 'x1' must be positive"},
      {"SplitToSequence f[4] i{1,2}", "split [1, 2] does not fit extent 4"},
      {"SplitToSequence f[2000000] i=1", "makes a sequence of more than 1048576"},
      {"ConcatFromSequence f[3] axis=0", "input 0 'x0' must be a sequence"},
      {"SequenceConstruct", "has 0 inputs, expected 1 or more"},
      {"OptionalGetElement", "has 0 inputs, expected 1"},
  });
}

TEST(RefusedNodes, Shapes) {
  expectRefusals({
      {"Reshape f[4] i{0,0}", "shape copies dimension 1, which the input does not have"},
      {"Reshape f[4]", "has 1 input, expected 2"},
      {"Reshape f[4] i{-1,-1}",
       "shape [-1, -1] is no shape: expected extents of at least 0, and at most one -1"},
      {"Reshape f[4] i{-2,2}",
       "shape [-2, 2] is no shape: expected extents of at least 0, and at most one -1"},
      {"Reshape f[4] i{3}", "shape [3] does not fit input of shape [4]"},
      {"Reshape f[4] i{3,-1}", "shape [3, -1] does not fit input of shape [4]"},
      {"Reshape f[4] i{4294967296,4294967296}", "shape [4294967296, 4294967296] is too large"},
      {"Flatten f[4] axis=3", "axis 3 is out of range for rank 1"},
      {"Unsqueeze f[4]", "has 1 input, expected 2"},
      {"Unsqueeze f[4] @11", "has no axes"},
      {"Reshape f[4] @1", "has no shape"},
      {"Transpose f[4,2] perm=[0]", "attribute 'perm' must have 2 entries"},
      {"Expand f[4] i{3}", "shape [4] does not broadcast to [3]"},
      {"Expand f[4] i{1152921504606846976,4}",
       "result shape [1152921504606846976, 4] is negative or too large"},
      {"Tile f[4] i{2,2}", "repeats [2, 2] must be 1 numbers that are not negative"},
      {"Tile f[4] i{2,3} i{0} @1", "tiles and axis must be scalars"},
      {"Tile f[4] i{4611686018427387904}", "repetition of shape [4] is too large"},
      {"Concat f[4] f[4]", "attribute 'axis' is missing"},
      {"Concat f[4] f[4,2] axis=0", "operands of concat have ranks 1 and 2"},
      {"Concat f[2,3] f[3,3] axis=1",
       "operands [2, 3] and [3, 3] of concat differ in more than dimension 1"},
      {"Split f[4] num_outputs=2 i{1,2} >2", "split [1, 2] does not divide extent 4 into 2"},
      {"Split f[4] axis=0 >3 @13", "extent 4 does not split evenly into 3; only from operator set "
                                   "18 on may the last part be smaller"},
      {"Split f[4] axis=0 >3 @11", "extent 4 does not split evenly into 3; only from operator set "
                                   "18 on may the last part be smaller"},
      {"Split f[4] i{1,1} >2", "split [1, 1] does not divide extent 4 into 2"},
      {"Squeeze f[4] i{0}", "dimension 0 of shape [4] is not 1"},
      {"SpaceToDepth f[1,2,3,4] blocksize=2",
       "needs an input [n, c, h, w] with h and w multiples of blocksize"},
      {"DepthToSpace f[1,3,4,4] blocksize=2",
       "needs an input [n, c, h, w] with c a multiple of blocksize squared"},
      {"DepthToSpace f[1,4,4,4] blocksize=2 mode='ROW'",
       "attribute 'mode' must be DCR or CRD, not 'ROW'"},
      {"SpaceToDepth f[1,2,4,4] blocksize=2 mode='ROW'",
       "attribute 'mode' must be DCR or CRD, not 'ROW'"},
  });
}

TEST(RefusedNodes, Signals) {
  expectRefusals({
      {"DFT f[1,8,1] i=9000000", "a transform of 9000000 samples is empty or too long"},
      {"DFT f[1,8,3]", "input 0 'x0' must be floats [..., 1] or [..., 2]"},
      {"DFT f[1,8,1] - i{1,2}", "input 2 'x2' must be a scalar"},
      {"STFT f[1,8,1] i{1,2} - i=4", "input 1 'x1' must be a scalar"},
      {"DFT f[1,8,1] - i=2", "the last dimension cannot be transformed"},
      {"DFT f[1,8,1] i{1,2}", "input 1 'x1' must be a scalar"},
      {"DFT f[1,8,1] i=0", "a transform of 0 samples is empty or too long"},
      {"STFT f[8] i=2", "input 0 'x0' must be floats [batch, samples, 1 or 2]"},
      {"STFT f[1,8,1] i=0 - i=4", "frame step 0 and length 4 do not fit 8 samples"},
      {"STFT f[1,8,1] i=2 f[3] i=4", "input 2 'x2' must hold 4 numbers"},
      {"STFT f[1,8,1] i=2 - i=9", "frame step 2 and length 9 do not fit 8 samples"},
      {"STFT f[1,100000,1] i=1 - i=1000", "has too many frames"},
      {"HannWindow i{1,2}", "size must be one number, from 0 to 1048576, of floats"},
      {"MelWeightMatrix i=4 i=8 i=100 f{0.0,1.0} f=10",
       "sizes must be positive, and not too large, edges scalars"},
      {"MelWeightMatrix i=0 i=8 i=100 f=0 f=10",
       "sizes must be positive, and not too large, edges scalars"},
      {"MelWeightMatrix i=4 i=8 i=100 f=0 f=99999", "an edge lies outside the spectrum"},
  });
}

TEST(RefusedNodes, Training) {
  expectRefusals({
      {"ai.onnx.preview.training::Adagrad f=0.1 i=1 f[3]", "has 3 inputs, expected 5 or more"},
      {"ai.onnx.preview.training::Adagrad f=0.1 i=1 f[3] f[3] f[3] f[3]",
       "needs 3 inputs per tensor after rate and step"},
      {"ai.onnx.preview.training::Adagrad f=0.1 i=1 f[3] f[4] f[3] >2",
       "input 3 'x3' must be floats of its tensor's shape"},
      {"ai.onnx.preview.training::Adagrad f[2] i=1 f[3] f[3] f[3] >2",
       "rate and step must be scalars"},
      {"ai.onnx.preview.training::Momentum f=0.1 i=1 f[3] f[3] f[3] mode='fast' alpha=0.1 beta=0.1 "
       "norm_coefficient=0.1 >2",
       "attribute 'mode' must be standard or nesterov, not 'fast'"},
  });
}

TEST(RefusedNodes, ValueDependent) {
  expectRefusals({
      {"NonMaxSuppression f{1,1,4:0,0,1,1} f{1,1,2:0,0}",
       "boxes [1, 1, 4] and scores [1, 1, 2] do not fit"},
      {"NonMaxSuppression f[1,2,4] f[1,1,2]",
       "input 0 'x0' must be known at compile time: the result's shape depends on its values"},
      {"Det f[9,9]", "input 0 'x0' must hold square matrices of at most 5 rows: larger ones need "
                     "pivoting, which has no operation"},
      {"TfIdfVectorizer i[3] mode='TF'",
       "attributes do not describe n-grams, or the input is no vector or matrix"},
      {"TfIdfVectorizer f[3] mode='TF'",
       "counts integers only, strings have no type in the dialect"},
      {"TfIdfVectorizer i[3] mode='TF' ngram_counts=[0] ngram_indexes=[-1] pool_int64s=[1]",
       "attribute 'ngram_indexes' is out of range"},
      {"TfIdfVectorizer i[3] mode='TF' ngram_counts=[2] ngram_indexes=[0] pool_int64s=[1]",
       "attribute 'ngram_counts' does not fit the pool"},
      {"TfIdfVectorizer i[3] mode='TF' ngram_counts=[0] ngram_indexes=[0,1] pool_int64s=[1]",
       "needs one index and weight per n-gram"},
      {"BitCast f[3]", "attribute 'to' is missing"},
      {"BitCast n[3] to=3", "casts elements of 4 bits to 8"},
      {"Add n[3] n[3]",
       "integers of 2 and 4 bits are only moved, cast and quantized; cast them to INT8 first"},
      {"BitCast f[3] to=7", "casts elements of 32 bits to 64"},
      {"ImageDecoder u[3]", "unsupported: ai.onnx::ImageDecoder version 27 (decodes files, which "
                            "is no tensor operation)"},
      {"NonZero f[3]",
       "input 0 'x0' must be known at compile time: the result's shape depends on its values"},
      {"Unique f[3] >4",
       "input 0 'x0' must be known at compile time: the result's shape depends on its values"},
      {"Compress f[3] b[3]",
       "input 1 'x1' must be known at compile time and of integers: shapes are static"},
  });
  std::string boxes = "NonMaxSuppression f{1,16385,4:0,0,0,0", scores = " f{1,1,16385:0";
  for (int i = 1; i < 16385; ++i)
    boxes += ",0,0,0,0", scores += ",0";
  const std::string line = boxes + "}" + scores + "}";
  expectRefusals({{line.c_str(), "has more than 16384 boxes"}});
}
