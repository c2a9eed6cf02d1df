// RUN: autopar-opt %s --split-input-file --autopar-evaluate-step=cluster=presets:cpux1 | FileCheck %s --check-prefix=COST
// RUN: autopar-opt %s --split-input-file --autopar-to-exec=pack-weights=false | FileCheck %s --check-prefix=EXEC

// Attention reads a part of a value through strides: it costs what attention alone costs, and there
// is no kernel for it.
// COST: autopar.step_us = 57522.88{{[0-9]*}} : f64
// EXEC-LABEL: exec.entry @step
// EXEC-NOT: exec.launch
// EXEC: exec.attention
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%qkv: tensor<8x12x512x96xf32> {autopar.name = "qkv"}, %k: tensor<8x12x512x32xf32> {autopar.name = "k"})
      -> (tensor<8x12x512x32xf32> {autopar.name = "y"}) {
    %q = autopar.slice %qkv starts [0, 0, 0, 32] steps [1, 1, 1, 1] {autopar.id = "q"} : tensor<8x12x512x96xf32> -> tensor<8x12x512x32xf32>
    %y, %l = autopar.attention %q, %k, %k scale 1.0 {autopar.id = "y"} : (tensor<8x12x512x32xf32>, tensor<8x12x512x32xf32>, tensor<8x12x512x32xf32>) -> (tensor<8x12x512x32xf32>, tensor<8x12x512xf32>)
    return %y : tensor<8x12x512x32xf32>
  }
}

// -----

// A convolution (43142.4) does not: the part is copied.
// COST: autopar.step_us = 46289.14{{[0-9]*}} : f64
// EXEC-LABEL: exec.entry @step
// EXEC: exec.launch
// EXEC: exec.convolution
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%all: tensor<8x128x64x64xf32> {autopar.name = "x"}, %w: tensor<64x64x3x3xf32> {autopar.name = "w"})
      -> (tensor<8x64x64x64xf32> {autopar.name = "y"}) {
    %x = autopar.slice %all starts [0, 64, 0, 0] steps [1, 1, 1, 1] {autopar.id = "x"} : tensor<8x128x64x64xf32> -> tensor<8x64x64x64xf32>
    %y = autopar.convolution %x, %w {strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64, autopar.id = "y"} : (tensor<8x64x64x64xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x64x64xf32>
    return %y : tensor<8x64x64x64xf32>
  }
}

// -----

// Gradients that are read as one tensor are written there: what is between costs nothing.
// COST: autopar.step_us = 749.98{{[0-9]*}} : f64
// EXEC-LABEL: exec.entry @step
// EXEC-NOT: exec.launch
// EXEC: exec.attention
// EXEC-NOT: exec.launch
// EXEC: exec.timetable
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%x: tensor<2x4x128x32xf32> {autopar.name = "x"}, %s: tensor<2x4x128xf32> {autopar.name = "s"})
      -> (tensor<2x128x3x128xf32> {autopar.name = "y"}) {
    %dq, %dk, %dv = autopar.attention_grad %x, %x, %x, %x, %s, %x scale 1.0 {autopar.id = "gradient"} : (tensor<2x4x128x32xf32>, tensor<2x4x128x32xf32>, tensor<2x4x128x32xf32>, tensor<2x4x128x32xf32>, tensor<2x4x128xf32>, tensor<2x4x128x32xf32>) -> (tensor<2x4x128x32xf32>, tensor<2x4x128x32xf32>, tensor<2x4x128x32xf32>)
    %tq = autopar.transpose %dq permutation [0, 2, 1, 3] : tensor<2x4x128x32xf32> -> tensor<2x128x4x32xf32>
    %tk = autopar.transpose %dk permutation [0, 2, 1, 3] : tensor<2x4x128x32xf32> -> tensor<2x128x4x32xf32>
    %tv = autopar.transpose %dv permutation [0, 2, 1, 3] : tensor<2x4x128x32xf32> -> tensor<2x128x4x32xf32>
    %rq = autopar.reshape %tq : tensor<2x128x4x32xf32> -> tensor<2x128x1x128xf32>
    %rk = autopar.reshape %tk : tensor<2x128x4x32xf32> -> tensor<2x128x1x128xf32>
    %rv = autopar.reshape %tv : tensor<2x128x4x32xf32> -> tensor<2x128x1x128xf32>
    %all = autopar.concat %rq, %rk, %rv dim 2 {autopar.id = "joined"} : (tensor<2x128x1x128xf32>, tensor<2x128x1x128xf32>, tensor<2x128x1x128xf32>) -> tensor<2x128x3x128xf32>
    return %all : tensor<2x128x3x128xf32>
  }
}

// -----

// Shards that were gathered along their last dimension are put in order for the product behind
// them: strides cannot say where such columns are.
// COST: autopar.group %{{.*}} {autopar.id = "ordered", autopar.us = {{[0-9]}}
// EXEC-LABEL: exec.entry @step
// EXEC: exec.launch
// EXEC: exec.matmul
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%x: tensor<64x32xf32> {autopar.name = "x"}, %w: tensor<64x16xf32> {autopar.name = "w"}) -> (tensor<64x32xf32> {autopar.name = "y"}) {
    %ordered = autopar.group %w {autopar.id = "ordered"} : (tensor<64x16xf32>) -> tensor<32x32xf32> {
    ^bb0(%shards: tensor<64x16xf32>):
      %0 = autopar.reshape %shards : tensor<64x16xf32> -> tensor<2x32x16xf32>
      %1 = autopar.transpose %0 permutation [1, 0, 2] : tensor<2x32x16xf32> -> tensor<32x2x16xf32>
      %2 = autopar.reshape %1 : tensor<32x2x16xf32> -> tensor<32x32xf32>
      autopar.yield %2 : tensor<32x32xf32>
    }
    %y = autopar.dot_general %x, %ordered contract [1] x [0] {autopar.id = "y"} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
    return %y : tensor<64x32xf32>
  }
}
