// RUN: autopar-opt %s | autopar-opt | FileCheck %s
// RUN: autopar-opt %s --mlir-print-op-generic | autopar-opt | FileCheck %s

// CHECK: autopar.mesh @mesh ["node" = 2, "gpu" = 4]
autopar.mesh @mesh ["node" = 2, "gpu" = 4]
// CHECK: autopar.cluster @cluster "presets:cpux4"
autopar.cluster @cluster "presets:cpux4"
// CHECK: autopar.origin @w : tensor<4x8xf32> in "model.onnx" at 128
autopar.origin @w : tensor<4x8xf32> in "model.onnx" at 128
// CHECK: autopar.origin @absent : tensor<4xf32>
autopar.origin @absent : tensor<4xf32>

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2x3xf32>, %m: tensor<2x3xi1>) -> tensor<2x3xi32> {
  // CHECK: autopar.unary gelu %{{.*}} : tensor<2x3xf32>
  %0 = autopar.unary gelu %x : tensor<2x3xf32>
  // CHECK: autopar.binary add %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %1 = autopar.binary add %0, %x : tensor<2x3xf32>
  // CHECK: autopar.compare lt %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %2 = autopar.compare lt %1, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK: autopar.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = autopar.select %2, %1, %x : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: autopar.cast %{{.*}} : tensor<2x3xf32> -> tensor<2x3xi32>
  %4 = autopar.cast %3 : tensor<2x3xf32> -> tensor<2x3xi32>
  // CHECK: autopar.cast overflows %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf8E4M3FN>
  %5 = autopar.cast overflows %3 : tensor<2x3xf32> -> tensor<2x3xf8E4M3FN>
  // CHECK: autopar.bitcast %{{.*}} : tensor<2x3xf32> -> tensor<2x3xi32>
  %bits = autopar.bitcast %3 : tensor<2x3xf32> -> tensor<2x3xi32>
  return %4 : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<2x6xf32>, %i: tensor<3x1xi64>, %z: tensor<f32>) -> tensor<3x6xf32> {
  // CHECK: autopar.reshape %{{.*}} : tensor<2x6xf32> -> tensor<2x2x3xf32>
  %0 = autopar.reshape %x : tensor<2x6xf32> -> tensor<2x2x3xf32>
  // CHECK: autopar.transpose %{{.*}} permutation [2, 0, 1] : tensor<2x2x3xf32> -> tensor<3x2x2xf32>
  %1 = autopar.transpose %0 permutation [2, 0, 1] : tensor<2x2x3xf32> -> tensor<3x2x2xf32>
  // CHECK: autopar.slice %{{.*}} starts [2, 0, 0] steps [-1, 1, 1] : tensor<3x2x2xf32> -> tensor<3x2x2xf32>
  %2 = autopar.slice %1 starts [2, 0, 0] steps [-1, 1, 1] : tensor<3x2x2xf32> -> tensor<3x2x2xf32>
  // CHECK: autopar.pad %{{.*}}, %{{.*}} low [0, 1, 0] : (tensor<3x2x2xf32>, tensor<f32>) -> tensor<3x3x2xf32>
  %3 = autopar.pad %2, %z low [0, 1, 0] : (tensor<3x2x2xf32>, tensor<f32>) -> tensor<3x3x2xf32>
  // CHECK: autopar.concat %{{.*}}, %{{.*}} dim 0
  %4 = autopar.concat %3, %3 dim 0 : (tensor<3x3x2xf32>, tensor<3x3x2xf32>) -> tensor<6x3x2xf32>
  // CHECK: autopar.gather %{{.*}}, %{{.*}} dims [0] batch 0
  %5 = autopar.gather %x, %i dims [0] batch 0 : (tensor<2x6xf32>, tensor<3x1xi64>) -> tensor<3x6xf32>
  return %5 : tensor<3x6xf32>
}

// CHECK-LABEL: func.func @contraction
func.func @contraction(%x: tensor<4x8x16xf32>, %w: tensor<4x16x32xf32>, %group: tensor<4x8xi64>) -> tensor<4x8xf32> {
  // CHECK: autopar.grouped_dot %{{.*}}, %{{.*}}, %{{.*}} : (tensor<4x8x16xf32>, tensor<4x16x32xf32>, tensor<4x8xi64>) -> tensor<4x8x32xf32>
  %rows = autopar.grouped_dot %x, %w, %group : (tensor<4x8x16xf32>, tensor<4x16x32xf32>, tensor<4x8xi64>) -> tensor<4x8x32xf32>
  // CHECK: autopar.grouped_dot %{{.*}}, %{{.*}}, %{{.*}} transposed among 8
  %back = autopar.grouped_dot %rows, %w, %group transposed among 8 : (tensor<4x8x32xf32>, tensor<4x16x32xf32>, tensor<4x8xi64>) -> tensor<4x8x16xf32>
  // CHECK: autopar.grouped_dot_rhs_grad %{{.*}}, %{{.*}}, %{{.*}} among 8
  %matrices = autopar.grouped_dot_rhs_grad %x, %rows, %group among 8 : (tensor<4x8x16xf32>, tensor<4x8x32xf32>, tensor<4x8xi64>) -> tensor<4x16x32xf32>
  %row.group = autopar.constant dense<1> : tensor<8xi64>
  // CHECK: autopar.grouped_dot %{{.*}}, %{{.*}}, %{{.*}} in_parts : (tensor<4x8x16xf32>, tensor<4x16x32xf32>, tensor<8xi64>) -> tensor<4x8x32xf32>
  %parts = autopar.grouped_dot %x, %w, %row.group in_parts : (tensor<4x8x16xf32>, tensor<4x16x32xf32>, tensor<8xi64>) -> tensor<4x8x32xf32>
  // CHECK: autopar.grouped_dot_rhs_grad %{{.*}}, %{{.*}}, %{{.*}} in_parts among 8
  %of.parts = autopar.grouped_dot_rhs_grad %x, %parts, %row.group in_parts among 8 : (tensor<4x8x16xf32>, tensor<4x8x32xf32>, tensor<8xi64>) -> tensor<4x16x32xf32>
  // CHECK: autopar.dot_general %{{.*}}, %{{.*}} batch [0] x [0] contract [2] x [1] byte_blocks 16
  %rounded = autopar.dot_general %x, %w batch [0] x [0] contract [2] x [1] byte_blocks 16 : (tensor<4x8x16xf32>, tensor<4x16x32xf32>) -> tensor<4x8x32xf32>
  // CHECK: autopar.dot_general %{{.*}}, %{{.*}} batch [0] x [0] contract [2] x [1] scaled_to f8E4M3FN
  %scaled = autopar.dot_general %x, %w batch [0] x [0] contract [2] x [1] scaled_to f8E4M3FN : (tensor<4x8x16xf32>, tensor<4x16x32xf32>) -> tensor<4x8x32xf32>
  // CHECK: autopar.dot_general %{{.*}}, %{{.*}} batch [0] x [0] contract [2] x [1]
  %0 = autopar.dot_general %x, %w batch [0] x [0] contract [2] x [1] : (tensor<4x8x16xf32>, tensor<4x16x32xf32>) -> tensor<4x8x32xf32>
  // CHECK: autopar.softmax %{{.*}} dim 2 : tensor<4x8x32xf32>
  %1 = autopar.softmax %0 dim 2 : tensor<4x8x32xf32>
  // CHECK: autopar.normalize %{{.*}} dims [2] epsilon 1.000000e-05 : tensor<4x8x32xf32>
  %2 = autopar.normalize %1 dims [2] epsilon 1.0e-05 : tensor<4x8x32xf32>
  // CHECK: autopar.normalize_again %{{.*}} dims [2] epsilon 1.000000e-05 rms : tensor<4x8x32xf32>
  %again = autopar.normalize_again %1 dims [2] epsilon 1.0e-05 rms : tensor<4x8x32xf32>
  // CHECK: autopar.normalize_grad %{{.*}}, %{{.*}}, %{{.*}} dims [2] epsilon 1.000000e-05 rms : tensor<4x8x32xf32>
  %g = autopar.normalize_grad %1, %2, %0 dims [2] epsilon 1.0e-05 rms : tensor<4x8x32xf32>
  // CHECK: autopar.softmax_grad %{{.*}}, %{{.*}} dim 2 log : tensor<4x8x32xf32>
  %h = autopar.softmax_grad %1, %g dim 2 log : tensor<4x8x32xf32>
  // CHECK: autopar.unary_grad gelu_tanh %{{.*}}, %{{.*}} : tensor<4x8x32xf32>
  %k = autopar.unary_grad gelu_tanh %2, %h : tensor<4x8x32xf32>
  // CHECK: autopar.mark_positive %{{.*}} : tensor<4x8x32xf32> -> tensor<4x8x16xi8>
  %marks = autopar.mark_positive %2 : tensor<4x8x32xf32> -> tensor<4x8x16xi8>
  // CHECK: autopar.keep_marked %{{.*}} where %{{.*}} : tensor<4x8x32xf32>, tensor<4x8x16xi8>
  %kept = autopar.keep_marked %h where %marks : tensor<4x8x32xf32>, tensor<4x8x16xi8>
  // CHECK: autopar.reduce sum %{{.*}} dims [2] : tensor<4x8x32xf32> -> tensor<4x8xf32>
  %3 = autopar.reduce sum %k dims [2] : tensor<4x8x32xf32> -> tensor<4x8xf32>
  // CHECK: autopar.group %{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = autopar.group %3 : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %b = autopar.unary neg %a : tensor<4x8xf32>
    autopar.yield %b : tensor<4x8xf32>
  }
  return %4 : tensor<4x8xf32>
}

// CHECK: autopar.formula @sgd {
// CHECK: autopar.yield %{{.*}} : tensor<f32>
autopar.formula @sgd {
^bb0(%w: tensor<f32>, %g: tensor<f32>, %rate: tensor<f32>):
  %step = autopar.binary mul %rate, %g : tensor<f32>
  %next = autopar.binary sub %w, %step : tensor<f32>
  autopar.yield %next : tensor<f32>
}

// CHECK-LABEL: func.func @update
func.func @update(%w: tensor<4x8xf32>, %g: tensor<4x8xf32>, %rate: tensor<f32>) -> tensor<4x8xf32> {
  // CHECK: autopar.update @sgd %arg0, %arg1, %arg2 : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %0 = autopar.update @sgd %w, %g, %rate : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x4x3x8xbf16>, %k: tensor<2x2x5x8xbf16>, %v: tensor<2x2x5x6xbf16>, %b: tensor<2x1x1x5xf32>, %g: tensor<2x4x3x6xbf16>)
    -> (tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x6xbf16>) {
  // CHECK: %[[O:.*]], %[[L:.*]] = autopar.attention %arg0, %arg1, %arg2 bias %arg3 scale 5.000000e-01 causal :
  %o, %l = autopar.attention %q, %k, %v bias %b scale 0.5 causal : (tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x6xbf16>, tensor<2x1x1x5xf32>) -> (tensor<2x4x3x6xbf16>, tensor<2x4x3xf32>)
  // CHECK: autopar.attention_grad %arg0, %arg1, %arg2, %[[O]], %[[L]], %arg4 scale 5.000000e-01 :
  %dq, %dk, %dv = autopar.attention_grad %q, %k, %v, %o, %l, %g scale 0.5
      : (tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x6xbf16>, tensor<2x4x3x6xbf16>, tensor<2x4x3xf32>, tensor<2x4x3x6xbf16>) -> (tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x6xbf16>)
  return %dq, %dk, %dv : tensor<2x4x3x8xbf16>, tensor<2x2x5x8xbf16>, tensor<2x2x5x6xbf16>
}

// CHECK-LABEL: func.func @attention_of_some_rows
func.func @attention_of_some_rows(%q: tensor<1x2x2x8xf32>, %k: tensor<1x2x4x8xf32>, %i: tensor<i64>) -> tensor<1x2x4x8xf32> {
  // CHECK: autopar.attention %arg0, %arg1, %arg1 scale 5.000000e-01 causal shard %arg2 of 2 :
  %o, %l = autopar.attention %q, %k, %k scale 0.5 causal shard %i of 2 : (tensor<1x2x2x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<i64>) -> (tensor<1x2x2x8xf32>, tensor<1x2x2xf32>)
  // CHECK: autopar.attention_grad %arg0, {{.*}} scale 5.000000e-01 causal shard %arg2 of 2 :
  %dq, %dk, %dv = autopar.attention_grad %q, %k, %k, %o, %l, %o scale 0.5 causal shard %i of 2
      : (tensor<1x2x2x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2xf32>, tensor<1x2x2x8xf32>, tensor<i64>) -> (tensor<1x2x2x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
  return %dk : tensor<1x2x4x8xf32>
}
// CHECK-LABEL: func.func @permutations
func.func @permutations(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>) {
  // CHECK: autopar.permute %arg0 from [0, 2, 1] over @ring ["c"] : tensor<4xf32>
  %y = autopar.permute %x from [0, 2, 1] over @ring ["c"] : tensor<4xf32>
  // CHECK: autopar.shard_index @ring ["c"] numbers [5, 1, 3] : tensor<i64>
  %i = autopar.shard_index @ring ["c"] numbers [5, 1, 3] : tensor<i64>
  return %y, %i : tensor<4xf32>, tensor<i64>
}

// A window of a triangle, and sinks.
// CHECK-LABEL: func.func @attention_window
func.func @attention_window(%q: tensor<1x2x4x8xf32>, %s: tensor<2xf32>) -> tensor<1x2x4x8xf32> {
  // CHECK: %[[O:.*]], %[[L:.*]] = autopar.attention %arg0, %arg0, %arg0 sink %arg1 scale 5.000000e-01 causal window 2 :
  %o, %l = autopar.attention %q, %q, %q sink %s scale 0.5 causal window 2 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<2xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  // CHECK: autopar.attention_grad %arg0, {{.*}} scale 5.000000e-01 causal window 2 :
  %dq, %dk, %dv = autopar.attention_grad %q, %q, %q, %o, %l, %o scale 0.5 causal window 2
      : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
  return %dq : tensor<1x2x4x8xf32>
}
