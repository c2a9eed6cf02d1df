// REQUIRES: avx512
// RUN: autopar-opt %s --split-input-file --autopar-to-exec=channel-block=16 | FileCheck %s

// Channels that do not fill blocks of 16: behind all else, so that depthwise convolutions have fast
// code, and what lies between convolutions works on them as they are.
// CHECK-LABEL: exec.program @class0
// CHECK: exec.entry @step
// CHECK-NEXT: exec.reorder %{{.*}} plain -> %[[X:.*]] channels_last : tensor<2x24x12x12xf32>
// CHECK-NEXT: exec.convolution %[[X]], {{.*}} -> %[[Y:[0-9]+]] {{.*}}groups = 24, xLayout = channels_last, yLayout = channels_last, packedW = true>
// CHECK-NEXT: exec.launch @{{.*}}(%[[Y]]) -> (%[[P:[0-9]+]])
// CHECK-NEXT: exec.convolution %[[P]], {{.*}} xLayout = channels_last, yLayout = channels_last, packedW = true>
// CHECK-NEXT: exec.reorder {{.*}} channels_last -> {{.*}} plain : tensor<2x40x6x6xf32>
func.func @main(%x: tensor<2x24x12x12xf32> {autopar.name = "x"},
               %w: tensor<24x1x3x3xf32> {autopar.name = "w", autopar.origin = @W},
               %v: tensor<40x24x1x1xf32> {autopar.name = "v", autopar.origin = @V})
    -> (tensor<2x40x6x6xf32> {autopar.name = "y"}) {
  %c = autopar.convolution %x, %w {autopar.id = "depthwise", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 24 : i64} : (tensor<2x24x12x12xf32>, tensor<24x1x3x3xf32>) -> tensor<2x24x12x12xf32>
  %p = autopar.group %c {autopar.id = "pooled"} : (tensor<2x24x12x12xf32>) -> tensor<2x24x6x6xf32> {
  ^bb0(%a: tensor<2x24x12x12xf32>):
    %r = autopar.unary relu %a : tensor<2x24x12x12xf32>
    %q = autopar.pool max %r {window = array<i64: 1, 1, 2, 2>, strides = array<i64: 1, 1, 2, 2>, padBegin = array<i64: 0, 0, 0, 0>, padEnd = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1, 1, 1>} : tensor<2x24x12x12xf32> -> tensor<2x24x6x6xf32>
    autopar.yield %q : tensor<2x24x6x6xf32>
  }
  %y = autopar.convolution %p, %v {autopar.id = "pointwise", strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x24x6x6xf32>, tensor<40x24x1x1xf32>) -> tensor<2x40x6x6xf32>
  return %y : tensor<2x40x6x6xf32>
}
autopar.origin @W : tensor<24x1x3x3xf32> in "w.onnx" at 0
autopar.origin @V : tensor<40x24x1x1xf32> in "w.onnx" at 864

// -----

// Where all channels fill blocks, they lie in them.
// CHECK-LABEL: exec.program @class0
// CHECK: xLayout = blocked16, yLayout = blocked16
func.func @main(%x: tensor<2x32x12x12xf32> {autopar.name = "x"},
                %w: tensor<32x1x3x3xf32> {autopar.name = "w", autopar.origin = @W})
    -> (tensor<2x32x12x12xf32> {autopar.name = "y"}) {
  %c = autopar.convolution %x, %w {autopar.id = "depthwise", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 32 : i64} : (tensor<2x32x12x12xf32>, tensor<32x1x3x3xf32>) -> tensor<2x32x12x12xf32>
  return %c : tensor<2x32x12x12xf32>
}
autopar.origin @W : tensor<32x1x3x3xf32> in "w.onnx" at 0

// -----

// A small convolution with odd channels is not worth Winograd's algorithm in a large one.
// CHECK-LABEL: exec.program @class0
// CHECK: xLayout = blocked16, yLayout = blocked16, algorithm = winograd
// CHECK-NOT: channels_last
func.func @main(%x: tensor<1x64x28x28xf32> {autopar.name = "x"},
                    %w: tensor<64x64x3x3xf32> {autopar.name = "w", autopar.origin = @W},
                    %v: tensor<6x64x1x1xf32> {autopar.name = "v", autopar.origin = @V})
    -> (tensor<1x6x28x28xf32> {autopar.name = "y"}) {
  %c = autopar.convolution %x, %w {autopar.id = "large", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x64x28x28xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x28x28xf32>
  %y = autopar.convolution %c, %v {autopar.id = "small", strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x64x28x28xf32>, tensor<6x64x1x1xf32>) -> tensor<1x6x28x28xf32>
  return %y : tensor<1x6x28x28xf32>
}
autopar.origin @W : tensor<64x64x3x3xf32> in "w.onnx" at 0
autopar.origin @V : tensor<6x64x1x1xf32> in "w.onnx" at 147456

// -----

// Volumes of a channel each have no fast code but in rows; lines have it as images.
// CHECK-LABEL: exec.program @class0
// CHECK: exec.entry @step
// CHECK-NOT: exec.reorder
// CHECK: exec.convolution {{.*}}groups = 32, packedW = true>
func.func @main(%x: tensor<1x32x4x8x8xf32> {autopar.name = "x"},
                %w: tensor<32x1x3x3x3xf32> {autopar.name = "w", autopar.origin = @W})
    -> (tensor<1x32x4x8x8xf32> {autopar.name = "y"}) {
  %c = autopar.convolution %x, %w {autopar.id = "volumes", strides = array<i64: 1, 1, 1>, padBegin = array<i64: 1, 1, 1>, padEnd = array<i64: 1, 1, 1>, inputDilation = array<i64: 1, 1, 1>, filterDilation = array<i64: 1, 1, 1>, groups = 32 : i64} : (tensor<1x32x4x8x8xf32>, tensor<32x1x3x3x3xf32>) -> tensor<1x32x4x8x8xf32>
  return %c : tensor<1x32x4x8x8xf32>
}
autopar.origin @W : tensor<32x1x3x3x3xf32> in "w.onnx" at 0

// -----

// CHECK-LABEL: exec.program @class0
// CHECK: groups = 32, xLayout = blocked16, yLayout = blocked16, packedW = true>
func.func @main(%x: tensor<1x32x40xf32> {autopar.name = "x"},
                %w: tensor<32x1x4xf32> {autopar.name = "w", autopar.origin = @W})
    -> (tensor<1x32x40xf32> {autopar.name = "y"}) {
  %c = autopar.convolution %x, %w {autopar.id = "lines", strides = array<i64: 1>, padBegin = array<i64: 3>, padEnd = array<i64: 0>, inputDilation = array<i64: 1>, filterDilation = array<i64: 1>, groups = 32 : i64} : (tensor<1x32x40xf32>, tensor<32x1x4xf32>) -> tensor<1x32x40xf32>
  return %c : tensor<1x32x40xf32>
}
autopar.origin @W : tensor<32x1x4xf32> in "w.onnx" at 0

// -----

// A step that trains a convolution of odd channels, and its gradients.
// CHECK-LABEL: exec.program @class0
// CHECK: exec.convolution {{.*}}groups = 24, xLayout = channels_last, yLayout = channels_last
// CHECK: exec.convolution {{.*}}groups = 24, xLayout = channels_last, yLayout = channels_last, {{.*}}kind = input_gradient
// CHECK: exec.convolution {{.*}}groups = 24, xLayout = channels_last, yLayout = channels_last, kind = filter_gradient
func.func @main(%x: tensor<2x24x12x12xf32> {autopar.name = "x"}, %w: tensor<24x1x3x3xf32> {autopar.name = "w"}, %g: tensor<2x24x12x12xf32> {autopar.name = "g"})
    -> (tensor<2x24x12x12xf32> {autopar.name = "y"}, tensor<2x24x12x12xf32> {autopar.name = "dx"}, tensor<24x1x3x3xf32> {autopar.name = "dw"}) {
  %y = autopar.convolution %x, %w {autopar.id = "y", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 24 : i64} : (tensor<2x24x12x12xf32>, tensor<24x1x3x3xf32>) -> tensor<2x24x12x12xf32>
  %dx = autopar.convolution_input_grad %g, %w {autopar.id = "dx", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 24 : i64} : (tensor<2x24x12x12xf32>, tensor<24x1x3x3xf32>) -> tensor<2x24x12x12xf32>
  %dw = autopar.convolution_filter_grad %x, %g {autopar.id = "dw", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 24 : i64} : (tensor<2x24x12x12xf32>, tensor<2x24x12x12xf32>) -> tensor<24x1x3x3xf32>
  return %y, %dx, %dw : tensor<2x24x12x12xf32>, tensor<2x24x12x12xf32>, tensor<24x1x3x3xf32>
}

// -----

// Where most channels fill blocks, normalizations of a training step are worth more than one that does not.
// CHECK-LABEL: exec.program @class0
// CHECK-NOT: channels_last
func.func @main(%x: tensor<2x64x12x12xf32> {autopar.name = "x"}, %v: tensor<64x64x3x3xf32> {autopar.name = "v"}, %w: tensor<24x64x3x3xf32> {autopar.name = "w"}, %g: tensor<2x64x12x12xf32> {autopar.name = "g"})
    -> (tensor<2x24x12x12xf32> {autopar.name = "y"}, tensor<64x64x3x3xf32> {autopar.name = "dv"}) {
  %h = autopar.convolution %x, %v {autopar.id = "h", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x64x12x12xf32>, tensor<64x64x3x3xf32>) -> tensor<2x64x12x12xf32>
  %y = autopar.convolution %h, %w {autopar.id = "y", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x64x12x12xf32>, tensor<24x64x3x3xf32>) -> tensor<2x24x12x12xf32>
  %dv = autopar.convolution_filter_grad %x, %g {autopar.id = "dv", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x64x12x12xf32>, tensor<2x64x12x12xf32>) -> tensor<64x64x3x3xf32>
  return %y, %dv : tensor<2x24x12x12xf32>, tensor<64x64x3x3xf32>
}

// -----

// On blocks the gradient of a depthwise filter beyond 3x3 is slow.
// CHECK-LABEL: exec.program @class0
// CHECK: exec.convolution {{.*}}groups = 32, xLayout = channels_last, yLayout = channels_last, kind = filter_gradient
func.func @main(%x: tensor<2x32x12x12xf32> {autopar.name = "x"}, %w: tensor<32x1x5x5xf32> {autopar.name = "w"}, %g: tensor<2x32x12x12xf32> {autopar.name = "g"})
    -> (tensor<2x32x12x12xf32> {autopar.name = "y"}, tensor<32x1x5x5xf32> {autopar.name = "dw"}) {
  %y = autopar.convolution %x, %w {autopar.id = "y", strides = array<i64: 1, 1>, padBegin = array<i64: 2, 2>, padEnd = array<i64: 2, 2>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 32 : i64} : (tensor<2x32x12x12xf32>, tensor<32x1x5x5xf32>) -> tensor<2x32x12x12xf32>
  %dw = autopar.convolution_filter_grad %x, %g {autopar.id = "dw", strides = array<i64: 1, 1>, padBegin = array<i64: 2, 2>, padEnd = array<i64: 2, 2>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 32 : i64} : (tensor<2x32x12x12xf32>, tensor<2x32x12x12xf32>) -> tensor<32x1x5x5xf32>
  return %y, %dw : tensor<2x32x12x12xf32>, tensor<32x1x5x5xf32>
}

// -----

// The large filter of an image of one channel is none of a channel each.
// CHECK-LABEL: exec.program @class0
// CHECK-NOT: channels_last
func.func @main(%x: tensor<2x1x12x12xf32> {autopar.name = "x"}, %w: tensor<32x1x5x5xf32> {autopar.name = "w"}, %g: tensor<2x32x12x12xf32> {autopar.name = "g"})
    -> (tensor<2x32x12x12xf32> {autopar.name = "y"}, tensor<32x1x5x5xf32> {autopar.name = "dw"}) {
  %y = autopar.convolution %x, %w {autopar.id = "y", strides = array<i64: 1, 1>, padBegin = array<i64: 2, 2>, padEnd = array<i64: 2, 2>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x1x12x12xf32>, tensor<32x1x5x5xf32>) -> tensor<2x32x12x12xf32>
  %dw = autopar.convolution_filter_grad %x, %g {autopar.id = "dw", strides = array<i64: 1, 1>, padBegin = array<i64: 2, 2>, padEnd = array<i64: 2, 2>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x1x12x12xf32>, tensor<2x32x12x12xf32>) -> tensor<32x1x5x5xf32>
  return %y, %dw : tensor<2x32x12x12xf32>, tensor<32x1x5x5xf32>
}
