// REQUIRES: avx512
// RUN: autopar-opt %s --split-input-file --autopar-to-exec="channel-block=16" | FileCheck %s
// RUN: autopar-opt %s --split-input-file --autopar-to-exec="channel-block=1" | FileCheck %s --check-prefix=PLAIN

// Between convolutions activations lie in blocks of channels; the pooling in between and the global
// average work on the blocks, nothing is reordered. Filters that the step gets are packed there: plain
// ones would be read by reference code.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.pack %1 -> %[[W:[0-9]+]] for
// CHECK-NEXT: exec.convolution %0, %[[W]] -> {{.*}} dilations = [1, 1], yLayout = blocked16, packedW = true
// CHECK-NEXT: exec.launch @[[POOL:k[0-9]+]]
// CHECK-NEXT: exec.pack %2 -> %[[V:[0-9]+]] for
// CHECK-NEXT: exec.convolution {{.*}}, %[[V]] -> {{.*}} xLayout = blocked16, yLayout = blocked16, packedW = true
// CHECK-NEXT: exec.launch @[[MEAN:k[0-9]+]]
// CHECK-NEXT: {{^ *}}}
// CHECK: func.func @[[POOL]](%{{.*}}: memref<2048xf32>
// PLAIN-NOT: blocked
func.func @main(%x: tensor<1x3x8x8xf32> {autopar.name = "x"}, %w: tensor<32x3x1x1xf32> {autopar.name = "w"},
                %v: tensor<32x32x1x1xf32> {autopar.name = "v"}) -> (tensor<1x32xf32> {autopar.name = "y"}) {
  %a = autopar.convolution %x, %w {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<32x3x1x1xf32>) -> tensor<1x32x8x8xf32>
  %p = autopar.group %a {autopar.id = "pool"} : (tensor<1x32x8x8xf32>) -> tensor<1x32x4x4xf32> {
  ^bb0(%g: tensor<1x32x8x8xf32>):
    %0 = autopar.pool max %g {window = array<i64: 1, 1, 2, 2>, strides = array<i64: 1, 1, 2, 2>, padBegin = array<i64: 0, 0, 0, 0>, padEnd = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1, 1, 1>} : tensor<1x32x8x8xf32> -> tensor<1x32x4x4xf32>
    autopar.yield %0 : tensor<1x32x4x4xf32>
  }
  %b = autopar.convolution %p, %v {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x32x4x4xf32>, tensor<32x32x1x1xf32>) -> tensor<1x32x4x4xf32>
  %y = autopar.group %b {autopar.id = "mean"} : (tensor<1x32x4x4xf32>) -> tensor<1x32xf32> {
  ^bb0(%g: tensor<1x32x4x4xf32>):
    %0 = autopar.reduce sum %g dims [2, 3] : tensor<1x32x4x4xf32> -> tensor<1x32xf32>
    autopar.yield %0 : tensor<1x32xf32>
  }
  return %y : tensor<1x32xf32>
}

// -----

// So do statistics of a batch and what is normalized by them, and a mask for the gradient of an activation.

// CHECK: exec.entry @step
// CHECK: exec.convolution {{.*}}yLayout = blocked16
// CHECK-NEXT: exec.launch @[[NORM:k[0-9]+]]
// CHECK-NEXT: exec.pack
// CHECK-NEXT: exec.convolution {{.*}}xLayout = blocked16, yLayout = blocked16
// CHECK-NEXT: exec.launch @[[MASK:k[0-9]+]]
// CHECK-NEXT: exec.reorder {{.*}} blocked16 -> {{.*}} plain : tensor<2x32x4x4xf32>
// CHECK-NEXT: {{^ *}}}
func.func @main(%x: tensor<2x3x4x4xf32> {autopar.name = "x"}, %w: tensor<32x3x1x1xf32> {autopar.name = "w"},
                %v: tensor<32x32x1x1xf32> {autopar.name = "v"})
    -> (tensor<2x32x4x4xf32> {autopar.name = "y"}, tensor<32xf32> {autopar.name = "sum"}) {
  %a = autopar.convolution %x, %w {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x4x4xf32>, tensor<32x3x1x1xf32>) -> tensor<2x32x4x4xf32>
  %n:3 = autopar.group %a {autopar.id = "norm"} : (tensor<2x32x4x4xf32>) -> (tensor<2x32x4x4xf32>, tensor<2x32x4x4xi1>, tensor<32xf32>) {
  ^bb0(%g: tensor<2x32x4x4xf32>):
    %sum = autopar.reduce sum %g dims [0, 2, 3] : tensor<2x32x4x4xf32> -> tensor<32xf32>
    %each = autopar.broadcast %sum dims [1] : tensor<32xf32> -> tensor<2x32x4x4xf32>
    %less = autopar.binary sub %g, %each : tensor<2x32x4x4xf32>
    %zero = autopar.constant dense<0.0> : tensor<2x32x4x4xf32>
    %mask = autopar.compare gt %less, %zero : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xi1>
    autopar.yield %less, %mask, %sum : tensor<2x32x4x4xf32>, tensor<2x32x4x4xi1>, tensor<32xf32>
  }
  %b = autopar.convolution %n#0, %v {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x32x4x4xf32>, tensor<32x32x1x1xf32>) -> tensor<2x32x4x4xf32>
  %y = autopar.group %b, %n#1 {autopar.id = "masked"} : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xi1>) -> tensor<2x32x4x4xf32> {
  ^bb0(%g: tensor<2x32x4x4xf32>, %m: tensor<2x32x4x4xi1>):
    %zero = autopar.constant dense<0.0> : tensor<2x32x4x4xf32>
    %0 = autopar.select %m, %g, %zero : (tensor<2x32x4x4xi1>, tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    autopar.yield %0 : tensor<2x32x4x4xf32>
  }
  return %y, %n#2 : tensor<2x32x4x4xf32>, tensor<32xf32>
}

// -----

// Parts of a convolution's channels, whole blocks of them, are read as they lie; others are put in order first.

// CHECK: exec.entry @step
// CHECK: exec.convolution {{.*}}yLayout = blocked16
// CHECK-NEXT: exec.launch @{{.*}}
// CHECK-NEXT: exec.reorder {{.*}} blocked16 -> {{.*}} plain : tensor<2x64x4x4xf32>
// CHECK-NEXT: exec.launch @{{.*}}
// CHECK-NEXT: exec.reorder {{.*}} blocked16 -> {{.*}} plain : tensor<2x32x4x4xf32>
// CHECK-NEXT: {{^ *}}}
func.func @main(%x: tensor<2x3x4x4xf32> {autopar.name = "x"}, %w: tensor<64x3x1x1xf32> {autopar.name = "w"})
    -> (tensor<2x32x4x4xf32> {autopar.name = "y"}, tensor<2x32x4x4xf32> {autopar.name = "z"}) {
  %a = autopar.convolution %x, %w {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x4x4xf32>, tensor<64x3x1x1xf32>) -> tensor<2x64x4x4xf32>
  %y = autopar.group %a {autopar.id = "blocks"} : (tensor<2x64x4x4xf32>) -> tensor<2x32x4x4xf32> {
  ^bb0(%g: tensor<2x64x4x4xf32>):
    %0 = autopar.slice %g starts [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<2x64x4x4xf32> -> tensor<2x32x4x4xf32>
    %1 = autopar.slice %g starts [0, 32, 0, 0] steps [1, 1, 1, 1] : tensor<2x64x4x4xf32> -> tensor<2x32x4x4xf32>
    %2 = autopar.binary add %0, %1 : tensor<2x32x4x4xf32>
    autopar.yield %2 : tensor<2x32x4x4xf32>
  }
  %z = autopar.group %a {autopar.id = "others"} : (tensor<2x64x4x4xf32>) -> tensor<2x32x4x4xf32> {
  ^bb0(%g: tensor<2x64x4x4xf32>):
    %0 = autopar.slice %g starts [0, 8, 0, 0] steps [1, 1, 1, 1] : tensor<2x64x4x4xf32> -> tensor<2x32x4x4xf32>
    %1 = autopar.unary neg %0 : tensor<2x32x4x4xf32>
    autopar.yield %1 : tensor<2x32x4x4xf32>
  }
  return %y, %z : tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>
}

// -----

// A mask of an image, the same for all channels, repeats into blocks.

// CHECK: exec.entry @step
// CHECK: exec.convolution {{.*}}yLayout = blocked16
// CHECK-NEXT: exec.launch @[[SEEN:k[0-9]+]]
// CHECK-NEXT: exec.pack
// CHECK-NEXT: exec.convolution {{.*}}xLayout = blocked16, yLayout = blocked16
// CHECK: func.func @[[SEEN]](
// PLAIN-NOT: blocked
func.func @main(%x: tensor<1x3x8x8xf32> {autopar.name = "x"}, %w: tensor<32x3x1x1xf32> {autopar.name = "w"},
                %v: tensor<32x32x1x1xf32> {autopar.name = "v"}, %seen: tensor<8x8xi1> {autopar.name = "seen"}) -> (tensor<1x32x8x8xf32> {autopar.name = "y"}) {
  %a = autopar.convolution %x, %w {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<32x3x1x1xf32>) -> tensor<1x32x8x8xf32>
  %m = autopar.group %a, %seen {autopar.id = "masked"} : (tensor<1x32x8x8xf32>, tensor<8x8xi1>) -> tensor<1x32x8x8xf32> {
  ^bb0(%g: tensor<1x32x8x8xf32>, %s: tensor<8x8xi1>):
    %0 = autopar.broadcast %s dims [2, 3] : tensor<8x8xi1> -> tensor<1x32x8x8xi1>
    %1 = autopar.constant dense<0.0> : tensor<1x32x8x8xf32>
    %2 = autopar.select %0, %g, %1 : (tensor<1x32x8x8xi1>, tensor<1x32x8x8xf32>, tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
    autopar.yield %2 : tensor<1x32x8x8xf32>
  }
  %b = autopar.convolution %m, %v {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x32x8x8xf32>, tensor<32x32x1x1xf32>) -> tensor<1x32x8x8xf32>
  return %b : tensor<1x32x8x8xf32>
}
