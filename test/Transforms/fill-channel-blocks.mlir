// RUN: autopar-opt %s --split-input-file --autopar-fill-channel-blocks=block=16 | FileCheck %s

// Zeros in both filters, and in what is added per channel; numbers that are the same everywhere are repeated.

// CHECK-LABEL: func.func @between_convolutions
// CHECK-DAG: %[[V:.*]] = autopar.pad %arg1, {{.*}} : (tensor<8x16x3x3xf32>, tensor<f32>) -> tensor<16x16x3x3xf32>
// CHECK-DAG: %[[B:.*]] = autopar.pad %arg2, {{.*}} : (tensor<8xf32>, tensor<f32>) -> tensor<16xf32>
// CHECK-DAG: %[[Y:.*]] = autopar.convolution %arg0, %[[V]] {{.*}} -> tensor<1x16x8x8xf32>
// CHECK-DAG: %[[BIAS:.*]] = autopar.broadcast %[[B]] dims [1] {{.*}} -> tensor<1x16x8x8xf32>
// CHECK: %[[ADD:.*]] = autopar.binary add %[[Y]], %[[BIAS]] {{.*}} : tensor<1x16x8x8xf32>
// CHECK: %[[RELU:.*]] = autopar.unary relu %[[ADD]] {{.*}} : tensor<1x16x8x8xf32>
// CHECK: %[[SIX:.*]] = autopar.constant {{.*}} dense<6.000000e+00> : tensor<1x16x8x8xf32>
// CHECK: %[[CLIP:.*]] = autopar.binary min %[[RELU]], %[[SIX]] {{.*}} : tensor<1x16x8x8xf32>
// CHECK: %[[W:.*]] = autopar.pad %arg3, {{.*}} : (tensor<32x8x1x1xf32>, tensor<f32>) -> tensor<32x16x1x1xf32>
// CHECK: autopar.convolution %[[CLIP]], %[[W]] {{.*}} : (tensor<1x16x8x8xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x8x8xf32>
module {
  autopar.origin @v : tensor<8x16x3x3xf32>
  autopar.origin @b : tensor<8xf32>
  autopar.origin @w : tensor<32x8x1x1xf32>
  func.func @between_convolutions(%x: tensor<1x16x8x8xf32>, %v: tensor<8x16x3x3xf32> {autopar.origin = @v},
                                  %b: tensor<8xf32> {autopar.origin = @b}, %w: tensor<32x8x1x1xf32> {autopar.origin = @w}) -> tensor<1x32x8x8xf32> {
    %0 = autopar.convolution %x, %v {autopar.id = "c1", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<8x16x3x3xf32>) -> tensor<1x8x8x8xf32>
    %1 = autopar.broadcast %b dims [1] {autopar.id = "bias"} : tensor<8xf32> -> tensor<1x8x8x8xf32>
    %2 = autopar.binary add %0, %1 {autopar.id = "add"} : tensor<1x8x8x8xf32>
    %3 = autopar.unary relu %2 {autopar.id = "relu"} : tensor<1x8x8x8xf32>
    %4 = autopar.constant {autopar.id = "six"} dense<6.0> : tensor<1x8x8x8xf32>
    %5 = autopar.binary min %3, %4 {autopar.id = "min"} : tensor<1x8x8x8xf32>
    %6 = autopar.convolution %5, %w {autopar.id = "c2", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<32x8x1x1xf32>) -> tensor<1x32x8x8xf32>
    return %6 : tensor<1x32x8x8xf32>
  }
}

// -----

// A mask is the same for all channels, and hides zeros by zeros in those that are filled.

// CHECK-LABEL: func.func @masked
// CHECK: %[[Y:.*]] = autopar.convolution {{.*}} -> tensor<1x16x8x8xf32>
// CHECK: %[[SEEN:.*]] = autopar.broadcast %arg3 dims [2, 3] {{.*}} : tensor<8x8xi1> -> tensor<1x16x8x8xi1>
// CHECK: %[[ZERO:.*]] = autopar.broadcast {{.*}} dims [] {{.*}} -> tensor<1x16x8x8xf32>
// CHECK: %[[MASKED:.*]] = autopar.select %[[SEEN]], %[[Y]], %[[ZERO]]
// CHECK: autopar.convolution %[[MASKED]], {{.*}} : (tensor<1x16x8x8xf32>, tensor<32x16x1x1xf32>)
module {
  autopar.origin @v : tensor<8x16x3x3xf32>
  autopar.origin @w : tensor<32x8x1x1xf32>
  func.func @masked(%x: tensor<1x16x8x8xf32>, %v: tensor<8x16x3x3xf32> {autopar.origin = @v}, %w: tensor<32x8x1x1xf32> {autopar.origin = @w}, %seen: tensor<8x8xi1>) -> tensor<1x32x8x8xf32> {
    %0 = autopar.convolution %x, %v {autopar.id = "c1", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<8x16x3x3xf32>) -> tensor<1x8x8x8xf32>
    %1 = autopar.broadcast %seen dims [2, 3] {autopar.id = "seen"} : tensor<8x8xi1> -> tensor<1x8x8x8xi1>
    %zero = autopar.constant {autopar.id = "zero"} dense<0.0> : tensor<f32>
    %2 = autopar.broadcast %zero dims [] {autopar.id = "behind"} : tensor<f32> -> tensor<1x8x8x8xf32>
    %3 = autopar.select %1, %0, %2 {autopar.id = "masked"} : (tensor<1x8x8x8xi1>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
    %4 = autopar.convolution %3, %w {autopar.id = "c2", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<32x8x1x1xf32>) -> tensor<1x32x8x8xf32>
    return %4 : tensor<1x32x8x8xf32>
  }
}

// -----

// Where the mask shows another number, filled channels would not be the same everywhere.

// CHECK-LABEL: func.func @masked_by_one
// CHECK: autopar.convolution {{.*}} -> tensor<1x8x8x8xf32>
module {
  autopar.origin @v : tensor<8x16x3x3xf32>
  autopar.origin @w : tensor<32x8x1x1xf32>
  func.func @masked_by_one(%x: tensor<1x16x8x8xf32>, %v: tensor<8x16x3x3xf32> {autopar.origin = @v}, %w: tensor<32x8x1x1xf32> {autopar.origin = @w}, %seen: tensor<8x8xi1>) -> tensor<1x32x8x8xf32> {
    %0 = autopar.convolution %x, %v {autopar.id = "c1", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<8x16x3x3xf32>) -> tensor<1x8x8x8xf32>
    %1 = autopar.broadcast %seen dims [2, 3] {autopar.id = "seen"} : tensor<8x8xi1> -> tensor<1x8x8x8xi1>
    %one = autopar.constant {autopar.id = "one"} dense<1.0> : tensor<f32>
    %2 = autopar.broadcast %one dims [] {autopar.id = "behind"} : tensor<f32> -> tensor<1x8x8x8xf32>
    %3 = autopar.select %1, %0, %2 {autopar.id = "masked"} : (tensor<1x8x8x8xi1>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
    %4 = autopar.convolution %3, %w {autopar.id = "c2", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<32x8x1x1xf32>) -> tensor<1x32x8x8xf32>
    return %4 : tensor<1x32x8x8xf32>
  }
}

// -----

// A chain of them, from its end.

// CHECK-LABEL: func.func @chain
// CHECK: autopar.convolution {{.*}} -> tensor<1x16x8x8xf32>
// CHECK: autopar.convolution {{.*}} : (tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32>
// CHECK: autopar.convolution {{.*}} : (tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32>
module {
  autopar.origin @u : tensor<8x16x1x1xf32>
  autopar.origin @v : tensor<8x8x1x1xf32>
  autopar.origin @w : tensor<16x8x1x1xf32>
  func.func @chain(%x: tensor<1x16x8x8xf32>, %u: tensor<8x16x1x1xf32> {autopar.origin = @u},
                   %v: tensor<8x8x1x1xf32> {autopar.origin = @v}, %w: tensor<16x8x1x1xf32> {autopar.origin = @w}) -> tensor<1x16x8x8xf32> {
    %0 = autopar.convolution %x, %u {autopar.id = "c1", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
    %1 = autopar.convolution %0, %v {autopar.id = "c2", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x8x8xf32>
    %2 = autopar.convolution %1, %w {autopar.id = "c3", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x8x8xf32>
    return %2 : tensor<1x16x8x8xf32>
  }
}

// -----

// Not where somebody else reads the result, where 0 would become no number, where a filter is no constant, where fewer than
// half of a block are there.

// CHECK-LABEL: func.func @read_elsewhere
// CHECK-NOT: autopar.pad
module {
  autopar.origin @v : tensor<8x16x1x1xf32>
  autopar.origin @w : tensor<16x8x1x1xf32>
  func.func @read_elsewhere(%x: tensor<1x16x8x8xf32>, %v: tensor<8x16x1x1xf32> {autopar.origin = @v},
                            %w: tensor<16x8x1x1xf32> {autopar.origin = @w}) -> (tensor<1x8x8x8xf32>, tensor<1x16x8x8xf32>) {
    %0 = autopar.convolution %x, %v {autopar.id = "c1", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
    %1 = autopar.convolution %0, %w {autopar.id = "c2", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x8x8xf32>
    return %0, %1 : tensor<1x8x8x8xf32>, tensor<1x16x8x8xf32>
  }
}

// -----

// CHECK-LABEL: func.func @logarithm
// CHECK-NOT: autopar.pad
module {
  autopar.origin @v : tensor<8x16x1x1xf32>
  autopar.origin @w : tensor<16x8x1x1xf32>
  func.func @logarithm(%x: tensor<1x16x8x8xf32>, %v: tensor<8x16x1x1xf32> {autopar.origin = @v},
                       %w: tensor<16x8x1x1xf32> {autopar.origin = @w}) -> tensor<1x16x8x8xf32> {
    %0 = autopar.convolution %x, %v {autopar.id = "c1", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
    %1 = autopar.unary log %0 {autopar.id = "log"} : tensor<1x8x8x8xf32>
    %2 = autopar.convolution %1, %w {autopar.id = "c2", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x8x8xf32>
    return %2 : tensor<1x16x8x8xf32>
  }
}

// -----

// exp(0 + 100) is none of f32, though all that the model computes may be.

// CHECK-LABEL: func.func @overflow
// CHECK-NOT: autopar.pad
module {
  autopar.origin @v : tensor<8x16x1x1xf32>
  autopar.origin @w : tensor<16x8x1x1xf32>
  func.func @overflow(%x: tensor<1x16x8x8xf32>, %v: tensor<8x16x1x1xf32> {autopar.origin = @v},
                      %w: tensor<16x8x1x1xf32> {autopar.origin = @w}) -> tensor<1x16x8x8xf32> {
    %0 = autopar.convolution %x, %v {autopar.id = "c1", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
    %1 = autopar.constant {autopar.id = "hundred"} dense<100.0> : tensor<1x8x8x8xf32>
    %2 = autopar.binary add %0, %1 {autopar.id = "add"} : tensor<1x8x8x8xf32>
    %3 = autopar.unary exp %2 {autopar.id = "exp"} : tensor<1x8x8x8xf32>
    %4 = autopar.convolution %3, %w {autopar.id = "c2", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x8x8xf32>
    return %4 : tensor<1x16x8x8xf32>
  }
}

// -----

// CHECK-LABEL: func.func @no_parameter
// CHECK-NOT: autopar.pad
func.func @no_parameter(%x: tensor<1x16x8x8xf32>, %v: tensor<8x16x1x1xf32>, %w: tensor<16x8x1x1xf32>) -> tensor<1x16x8x8xf32> {
  %0 = autopar.convolution %x, %v {autopar.id = "c1", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
  %1 = autopar.convolution %0, %w {autopar.id = "c2", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x8x8x8xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x8x8xf32>
  return %1 : tensor<1x16x8x8xf32>
}

// -----

// CHECK-LABEL: func.func @few
// CHECK-NOT: autopar.pad
module {
  autopar.origin @v : tensor<7x16x1x1xf32>
  autopar.origin @w : tensor<16x7x1x1xf32>
  func.func @few(%x: tensor<1x16x8x8xf32>, %v: tensor<7x16x1x1xf32> {autopar.origin = @v},
                 %w: tensor<16x7x1x1xf32> {autopar.origin = @w}) -> tensor<1x16x8x8xf32> {
    %0 = autopar.convolution %x, %v {autopar.id = "c1", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<7x16x1x1xf32>) -> tensor<1x7x8x8xf32>
    %1 = autopar.convolution %0, %w {autopar.id = "c2", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x7x8x8xf32>, tensor<16x7x1x1xf32>) -> tensor<1x16x8x8xf32>
    return %1 : tensor<1x16x8x8xf32>
  }
}
