// RUN: autopar-opt %s --autopar-raise-attention --split-input-file | FileCheck %s
// RUN: autopar-opt %s --autopar-raise-attention=mode=products --split-input-file | FileCheck %s --check-prefix=PRODUCTS
// RUN: autopar-opt %s --autopar-raise-attention=target=cuda --split-input-file | FileCheck %s --check-prefix=TRIANGLES --implicit-check-not=autopar.attention
// RUN: autopar-opt %s --autopar-raise-attention="target=cuda precision=bf16" --split-input-file | FileCheck %s --check-prefix=CUDNN
// RUN: autopar-opt %s --autopar-raise-attention="target=cuda precision=fp8" --split-input-file | FileCheck %s --check-prefix=CUDNN
// RUN: autopar-opt %s --autopar-raise-attention="target=cuda precision=bf16 chip=90" --split-input-file | FileCheck %s --check-prefix=HOPPER
// RUN: not autopar-opt %s --autopar-raise-attention=mode=flash --split-input-file 2>&1 | FileCheck %s --check-prefix=MODE

// MODE: error: attention: expected auto, fused or products, got "flash"
// PRODUCTS-NOT: autopar.attention

// As GPT-2 writes it: a scale, then a constant triangle that selects; the key is transposed already.
// In f32 a GPU's library has no attention; a triangle is going to be written better than with a mask.
// CHECK-LABEL: func.func @gpt2
// TRIANGLES-LABEL: func.func @gpt2
// TRIANGLES: autopar.attention %{{.*}} causal
// CUDNN: autopar.attention %{{.*}} causal
// CHECK: %[[Q:.*]] = autopar.transpose %arg0 permutation [0, 2, 1, 3]
// CHECK: %[[K:.*]] = autopar.transpose %arg1 permutation [0, 2, 1, 3] {autopar.id = "y/key"}
// CHECK: %[[Y:.*]], %{{.*}} = autopar.attention %[[Q]], %[[K]], %arg2 scale 1.250000e-01 causal {autopar.id = "y"}
// CHECK-NEXT: return %[[Y]]
func.func @gpt2(%query: tensor<2x3x4x8xf32>, %key: tensor<2x3x4x8xf32>, %v: tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %q = autopar.transpose %query permutation [0, 2, 1, 3] : tensor<2x3x4x8xf32> -> tensor<2x4x3x8xf32>
  %k = autopar.transpose %key permutation [0, 2, 3, 1] : tensor<2x3x4x8xf32> -> tensor<2x4x8x3xf32>
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x3x8xf32>, tensor<2x4x8x3xf32>) -> tensor<2x4x3x3xf32>
  %number = autopar.constant dense<0.125> : tensor<f32>
  %scale = autopar.broadcast %number dims [] : tensor<f32> -> tensor<2x4x3x3xf32>
  %scaled = autopar.binary mul %s, %scale : tensor<2x4x3x3xf32>
  %triangle = autopar.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %seen = autopar.broadcast %triangle dims [0, 1, 2, 3] : tensor<1x1x3x3xi1> -> tensor<2x4x3x3xi1>
  %lowest = autopar.constant dense<-3.40282347E+38> : tensor<f32>
  %fill = autopar.broadcast %lowest dims [] : tensor<f32> -> tensor<2x4x3x3xf32>
  %masked = autopar.select %seen, %scaled, %fill : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = autopar.softmax %masked dim 3 : tensor<2x4x3x3xf32>
  %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// -----

// A triangle of few numbers comes repeated for each sample and head.
// CHECK-LABEL: func.func @repeated
// TRIANGLES-LABEL: func.func @repeated
// TRIANGLES: autopar.attention %{{.*}} causal
// CUDNN: autopar.attention %{{.*}} causal
// CHECK: autopar.attention %arg0, %arg1, %arg2 scale 1.000000e+00 causal
func.func @repeated(%q: tensor<1x2x2x8xf32>, %k: tensor<1x2x2x8xf32>, %v: tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>) -> tensor<1x2x2x2xf32>
  %seen = autopar.constant dense<[[[[true, false], [true, true]], [[true, false], [true, true]]]]> : tensor<1x2x2x2xi1>
  %fill = autopar.constant dense<0xFF800000> : tensor<1x2x2x2xf32>
  %masked = autopar.select %seen, %s, %fill : (tensor<1x2x2x2xi1>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %p = autopar.softmax %masked dim 3 : tensor<1x2x2x2xf32>
  %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x2x2x2xf32>, tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32>
  return %y : tensor<1x2x2x8xf32>
}

// -----

// As Llama writes it: heads share keys and values, the triangle is made of positions and added.
// CHECK-LABEL: func.func @llama
// TRIANGLES-LABEL: func.func @llama
// TRIANGLES: autopar.attention %{{.*}} causal
// CUDNN: autopar.attention %{{.*}} causal
// CHECK: %[[Y:.*]], %{{.*}} = autopar.attention %arg0, %arg1, %arg2 scale 5.000000e-01 causal : (tensor<2x4x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>)
func.func @llama(%q: tensor<2x4x3x8xf32>, %key: tensor<2x2x3x8xf32>, %value: tensor<2x2x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %k0 = autopar.broadcast %key dims [0, 1, 3, 4] : tensor<2x2x3x8xf32> -> tensor<2x2x2x3x8xf32>
  %k = autopar.reshape %k0 : tensor<2x2x2x3x8xf32> -> tensor<2x4x3x8xf32>
  %v0 = autopar.broadcast %value dims [0, 1, 3, 4] : tensor<2x2x3x8xf32> -> tensor<2x2x2x3x8xf32>
  %v = autopar.reshape %v0 : tensor<2x2x2x3x8xf32> -> tensor<2x4x3x8xf32>
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %number = autopar.constant dense<0.5> : tensor<f32>
  %scale = autopar.broadcast %number dims [] : tensor<f32> -> tensor<2x4x3x3xf32>
  %scaled = autopar.binary mul %s, %scale : tensor<2x4x3x3xf32>
  %positions = autopar.constant dense<[0, 1, 2]> : tensor<3xi64>
  %column = autopar.broadcast %positions dims [1] : tensor<3xi64> -> tensor<3x3xi64>
  %row = autopar.broadcast %positions dims [0] : tensor<3xi64> -> tensor<3x3xi64>
  %seen = autopar.compare le %column, %row : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
  %zero = autopar.constant dense<0.0> : tensor<f32>
  %zeros = autopar.broadcast %zero dims [] : tensor<f32> -> tensor<3x3xf32>
  %lowest = autopar.constant dense<-3.40282347E+38> : tensor<f32>
  %fill = autopar.broadcast %lowest dims [] : tensor<f32> -> tensor<3x3xf32>
  %mask = autopar.select %seen, %zeros, %fill : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %masks = autopar.broadcast %mask dims [2, 3] : tensor<3x3xf32> -> tensor<2x4x3x3xf32>
  %masked = autopar.binary add %scaled, %masks : tensor<2x4x3x3xf32>
  %p = autopar.softmax %masked dim 3 : tensor<2x4x3x3xf32>
  %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// -----

// As BERT writes it: a mask of the columns is added.
// CHECK-LABEL: func.func @bert
// CUDNN: autopar.attention %arg0, %arg1, %arg2 bias %arg3
// CHECK: autopar.attention %arg0, %arg1, %arg2 bias %arg3 scale 1.000000e+00 : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<2x1x1x5xf32>)
func.func @bert(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %mask: tensor<2x1x1x5xf32>) -> tensor<2x4x3x8xf32> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x3x5xf32>
  %masks = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<2x1x1x5xf32> -> tensor<2x4x3x5xf32>
  %masked = autopar.binary add %s, %masks : tensor<2x4x3x5xf32>
  %p = autopar.softmax %masked dim 3 : tensor<2x4x3x5xf32>
  %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x3x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// -----

// As the importer writes Attention with a mask of booleans: rows that may see nothing are zero, which
// they are not in a GPU's library. Of so few rows it takes products.
// CUDNN-LABEL: func.func @onnx
// CUDNN-NOT: autopar.attention
// CHECK-LABEL: func.func @onnx
// CHECK: %[[B:.*]] = autopar.select %arg3, %{{.*}}, %{{.*}} {autopar.id = "y/mask"} : (tensor<2x1x3x5xi1>, tensor<2x1x3x5xf32>, tensor<2x1x3x5xf32>) -> tensor<2x1x3x5xf32>
// CHECK: autopar.attention %arg0, %arg1, %arg2 bias %[[B]] scale 1.000000e+00 {autopar.id = "y"}
// CHECK-NOT: autopar.reduce
func.func @onnx(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %mask: tensor<2x1x3x5xi1>) -> tensor<2x4x3x8xf32> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x3x5xf32>
  %seen = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<2x1x3x5xi1> -> tensor<2x4x3x5xi1>
  %infinity = autopar.constant dense<0xFF800000> : tensor<f32>
  %fill = autopar.broadcast %infinity dims [] : tensor<f32> -> tensor<2x4x3x5xf32>
  %masked = autopar.select %seen, %s, %fill : (tensor<2x4x3x5xi1>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  %p = autopar.softmax %masked dim 3 : tensor<2x4x3x5xf32>
  %largest = autopar.reduce max %masked dims [3] : tensor<2x4x3x5xf32> -> tensor<2x4x3xf32>
  %column = autopar.reshape %largest : tensor<2x4x3xf32> -> tensor<2x4x3x1xf32>
  %fills = autopar.broadcast %infinity dims [] : tensor<f32> -> tensor<2x4x3x1xf32>
  %empty = autopar.compare eq %column, %fills : (tensor<2x4x3x1xf32>, tensor<2x4x3x1xf32>) -> tensor<2x4x3x1xi1>
  %rows = autopar.broadcast %empty dims [0, 1, 2, 3] : tensor<2x4x3x1xi1> -> tensor<2x4x3x5xi1>
  %zero = autopar.constant dense<0.0> : tensor<f32>
  %zeros = autopar.broadcast %zero dims [] : tensor<f32> -> tensor<2x4x3x5xf32>
  %w = autopar.select %rows, %zeros, %p : (tensor<2x4x3x5xi1>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  %y = autopar.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<2x4x3x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// -----

// More rows are the library's there, and those that see nothing are cleared behind it, heads and rows swapped as the model
// wants them. Which ones is computed once for both layers.
// CUDNN-LABEL: func.func @prompt
// CUDNN: %[[B:.*]] = autopar.select %arg2, {{.*}} {autopar.id = "y/mask"}
// CUDNN: %[[L:.*]] = autopar.reduce max %[[B]] dims [3]
// CUDNN: %[[E:.*]] = autopar.compare eq %[[L]], {{.*}} -> tensor<2x1x16xi1>
// CUDNN: %[[H:.*]] = autopar.transpose %[[E]] {{.*}} -> tensor<2x16x1xi1>
// CUDNN-NOT: autopar.reduce
// CUDNN: %[[A:.*]], %{{.*}} = autopar.attention %arg0, %arg1, %arg1 bias %[[B]]
// CUDNN: %[[S:.*]] = autopar.transpose %[[A]] {{.*}} -> tensor<2x16x4x8xf32>
// CUDNN: %[[R:.*]] = autopar.broadcast %[[H]] dims [0, 1, 2] {{.*}} -> tensor<2x16x4x8xi1>
// CUDNN: %[[Y:.*]] = autopar.select %[[R]], %{{.*}}, %[[S]]
// CUDNN: autopar.attention %{{.*}}, %arg1, %arg1 bias %[[B]]
// CUDNN: autopar.select %{{.*}}, %{{.*}}, %{{.*}} {autopar.id = "z/rows/cleared"}
// CUDNN: return %[[Y]]
// CHECK-LABEL: func.func @prompt
// CHECK-COUNT-2: autopar.attention
// CHECK-NOT: autopar.reduce
func.func @prompt(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x24x8xf32>, %mask: tensor<2x1x16x24xi1>) -> (tensor<2x16x4x8xf32>, tensor<2x4x16x8xf32>) {
  %seen = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<2x1x16x24xi1> -> tensor<2x4x16x24xi1>
  %infinity = autopar.constant dense<0xFF800000> : tensor<f32>
  %zero = autopar.constant dense<0.0> : tensor<f32>
  %fill = autopar.broadcast %infinity dims [] : tensor<f32> -> tensor<2x4x16x24xf32>
  %fills = autopar.broadcast %infinity dims [] : tensor<f32> -> tensor<2x4x16x1xf32>
  %zeros = autopar.broadcast %zero dims [] : tensor<f32> -> tensor<2x4x16x24xf32>
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x16x8xf32>, tensor<2x4x24x8xf32>) -> tensor<2x4x16x24xf32>
  %masked = autopar.select %seen, %s, %fill : (tensor<2x4x16x24xi1>, tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %p = autopar.softmax %masked dim 3 : tensor<2x4x16x24xf32>
  %largest = autopar.reduce max %masked dims [3] : tensor<2x4x16x24xf32> -> tensor<2x4x16xf32>
  %column = autopar.reshape %largest : tensor<2x4x16xf32> -> tensor<2x4x16x1xf32>
  %empty = autopar.compare eq %column, %fills : (tensor<2x4x16x1xf32>, tensor<2x4x16x1xf32>) -> tensor<2x4x16x1xi1>
  %rows = autopar.broadcast %empty dims [0, 1, 2, 3] : tensor<2x4x16x1xi1> -> tensor<2x4x16x24xi1>
  %w = autopar.select %rows, %zeros, %p : (tensor<2x4x16x24xi1>, tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %y = autopar.dot_general %w, %k batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<2x4x16x24xf32>, tensor<2x4x24x8xf32>) -> tensor<2x4x16x8xf32>
  %s1 = autopar.dot_general %y, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x16x8xf32>, tensor<2x4x24x8xf32>) -> tensor<2x4x16x24xf32>
  %masked1 = autopar.select %seen, %s1, %fill : (tensor<2x4x16x24xi1>, tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %p1 = autopar.softmax %masked1 dim 3 : tensor<2x4x16x24xf32>
  %largest1 = autopar.reduce max %masked1 dims [3] : tensor<2x4x16x24xf32> -> tensor<2x4x16xf32>
  %column1 = autopar.reshape %largest1 : tensor<2x4x16xf32> -> tensor<2x4x16x1xf32>
  %empty1 = autopar.compare eq %column1, %fills : (tensor<2x4x16x1xf32>, tensor<2x4x16x1xf32>) -> tensor<2x4x16x1xi1>
  %rows1 = autopar.broadcast %empty1 dims [0, 1, 2, 3] : tensor<2x4x16x1xi1> -> tensor<2x4x16x24xi1>
  %w1 = autopar.select %rows1, %zeros, %p1 : (tensor<2x4x16x24xi1>, tensor<2x4x16x24xf32>, tensor<2x4x16x24xf32>) -> tensor<2x4x16x24xf32>
  %z = autopar.dot_general %w1, %k batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "z"} : (tensor<2x4x16x24xf32>, tensor<2x4x24x8xf32>) -> tensor<2x4x16x8xf32>
  %t = autopar.transpose %y permutation [0, 2, 1, 3] : tensor<2x4x16x8xf32> -> tensor<2x16x4x8xf32>
  return %t, %z : tensor<2x16x4x8xf32>, tensor<2x4x16x8xf32>
}

// -----

// The probabilities are an output, too.
// CHECK-LABEL: func.func @observed
// CHECK-NOT: autopar.attention
// CHECK: return
func.func @observed(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3x3xf32>) {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %p = autopar.softmax %s dim 3 : tensor<2x4x3x3xf32>
  %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  return %y, %p : tensor<2x4x3x8xf32>, tensor<2x4x3x3xf32>
}

// -----

// A bias that is trained needs a gradient.
// CHECK-LABEL: func.func @trained
// CHECK-NOT: autopar.attention
// CHECK: return
func.func @trained(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %bias: tensor<4x3x3xf32> {autopar.trainable = "decay"}) -> tensor<2x4x3x8xf32> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %biases = autopar.broadcast %bias dims [1, 2, 3] : tensor<4x3x3xf32> -> tensor<2x4x3x3xf32>
  %biased = autopar.binary add %s, %biases : tensor<2x4x3x3xf32>
  %p = autopar.softmax %biased dim 3 : tensor<2x4x3x3xf32>
  %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// -----

// A strict triangle leaves the first row without a column: it is no causal mask, but a bias.
// CUDNN-LABEL: func.func @strict
// CUDNN: autopar.attention {{.*}} bias
// CHECK-LABEL: func.func @strict
// CHECK: autopar.attention
// CHECK-SAME: bias
// CHECK-NOT: causal
// CHECK: return
func.func @strict(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %row = autopar.iota dim 2 : tensor<2x4x3x3xi64>
  %column = autopar.iota dim 3 : tensor<2x4x3x3xi64>
  %seen = autopar.compare lt %column, %row : (tensor<2x4x3x3xi64>, tensor<2x4x3x3xi64>) -> tensor<2x4x3x3xi1>
  %lowest = autopar.constant dense<0xFF800000> : tensor<f32>
  %fill = autopar.broadcast %lowest dims [] : tensor<f32> -> tensor<2x4x3x3xf32>
  %masked = autopar.select %seen, %s, %fill : (tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = autopar.softmax %masked dim 3 : tensor<2x4x3x3xf32>
  %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  return %y : tensor<2x4x3x8xf32>
}

// -----

// One mask serves every layer with the same conditions.
// CHECK-LABEL: func.func @layers
// CHECK: %[[B:.*]] = autopar.select %arg3,
// CHECK-NOT: autopar.select
// CHECK: %[[Y:.*]], %{{.*}} = autopar.attention %arg0, %arg1, %arg2 bias %[[B]]
// CHECK-NOT: autopar.select
// CHECK: autopar.attention %[[Y]], %arg1, %arg2 bias %[[B]]
func.func @layers(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x8xf32>, %mask: tensor<2x1x3x5xi1>) -> tensor<2x4x3x8xf32> {
  %infinity = autopar.constant dense<0xFF800000> : tensor<f32>
  %fill = autopar.broadcast %infinity dims [] : tensor<f32> -> tensor<2x4x3x5xf32>
  %seen = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<2x1x3x5xi1> -> tensor<2x4x3x5xi1>
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x3x5xf32>
  %masked = autopar.select %seen, %s, %fill : (tensor<2x4x3x5xi1>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  %p = autopar.softmax %masked dim 3 : tensor<2x4x3x5xf32>
  %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x3x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x3x8xf32>
  %again = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<2x1x3x5xi1> -> tensor<2x4x3x5xi1>
  %s1 = autopar.dot_general %y, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x3x5xf32>
  %masked1 = autopar.select %again, %s1, %fill : (tensor<2x4x3x5xi1>, tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  %p1 = autopar.softmax %masked1 dim 3 : tensor<2x4x3x5xf32>
  %y1 = autopar.dot_general %p1, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x3x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x3x8xf32>
  return %y1 : tensor<2x4x3x8xf32>
}

// -----

// Rows of latent attention, 192 and 128 long, have a gradient in cuDNN from Hopper on.
// CHECK-LABEL: func.func @latent
// CHECK: autopar.attention
// CUDNN-LABEL: func.func @latent
// CUDNN-NOT: autopar.attention
// HOPPER-LABEL: func.func @latent
// HOPPER: autopar.attention
func.func @latent(%q: tensor<1x2x8x192xf32>, %k: tensor<1x2x8x192xf32>, %v: tensor<1x2x8x128xf32>) -> tensor<1x2x8x128xf32> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x8x192xf32>, tensor<1x2x8x192xf32>) -> tensor<1x2x8x8xf32>
  %p = autopar.softmax %s dim 3 : tensor<1x2x8x8xf32>
  %y = autopar.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x2x8x8xf32>, tensor<1x2x8x128xf32>) -> tensor<1x2x8x128xf32>
  return %y : tensor<1x2x8x128xf32>
}

// -----

// As gpt-oss writes it: a window of two columns from comparisons, a sink of each head beside the scores, the row's
// maximum taken from all, and the sink's column dropped.
// CHECK-LABEL: func.func @gpt_oss
// TRIANGLES-LABEL: func.func @gpt_oss
// TRIANGLES: autopar.attention %{{.*}} sink %arg3 scale 5.000000e-01 causal window 2 {
// CUDNN-LABEL: func.func @gpt_oss
// CUDNN: autopar.attention %{{.*}} sink %arg3 scale 5.000000e-01 causal window 2 {
// CHECK: %[[Y:.*]], %{{.*}} = autopar.attention %arg0, %arg1, %arg2 sink %arg3 scale 5.000000e-01 causal window 2 {autopar.id = "y"}
// CHECK-NEXT: return %[[Y]]
func.func @gpt_oss(%q: tensor<2x4x4x8xf32>, %k: tensor<2x4x4x8xf32>, %v: tensor<2x4x4x8xf32>, %sinks: tensor<4xf32>) -> tensor<2x4x4x8xf32> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>) -> tensor<2x4x4x4xf32>
  %number = autopar.constant dense<0.5> : tensor<f32>
  %scale = autopar.broadcast %number dims [] : tensor<f32> -> tensor<2x4x4x4xf32>
  %scaled = autopar.binary mul %s, %scale : tensor<2x4x4x4xf32>
  %positions = autopar.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %column = autopar.broadcast %positions dims [1] : tensor<4xi64> -> tensor<4x4xi64>
  %row = autopar.broadcast %positions dims [0] : tensor<4xi64> -> tensor<4x4xi64>
  %two = autopar.constant dense<2> : tensor<i64>
  %window = autopar.broadcast %two dims [] : tensor<i64> -> tensor<4x4xi64>
  %before = autopar.binary sub %row, %window : tensor<4x4xi64>
  %near = autopar.compare gt %column, %before : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %causal = autopar.compare le %column, %row : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %seen = autopar.binary and %near, %causal : tensor<4x4xi1>
  %zero = autopar.constant dense<0.0> : tensor<f32>
  %zeros = autopar.broadcast %zero dims [] : tensor<f32> -> tensor<4x4xf32>
  %lowest = autopar.constant dense<-3.40282347E+38> : tensor<f32>
  %lowests = autopar.broadcast %lowest dims [] : tensor<f32> -> tensor<4x4xf32>
  %bias = autopar.select %seen, %zeros, %lowests : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %biases = autopar.broadcast %bias dims [2, 3] : tensor<4x4xf32> -> tensor<2x4x4x4xf32>
  %masked = autopar.binary add %scaled, %biases : tensor<2x4x4x4xf32>
  %s4 = autopar.reshape %sinks : tensor<4xf32> -> tensor<1x4x1x1xf32>
  %sink = autopar.broadcast %s4 dims [0, 1, 2, 3] : tensor<1x4x1x1xf32> -> tensor<2x4x4x1xf32>
  %logits = autopar.concat %masked, %sink dim 3 : (tensor<2x4x4x4xf32>, tensor<2x4x4x1xf32>) -> tensor<2x4x4x5xf32>
  %largest = autopar.reduce max %logits dims [3] : tensor<2x4x4x5xf32> -> tensor<2x4x4xf32>
  %largests = autopar.broadcast %largest dims [0, 1, 2] : tensor<2x4x4xf32> -> tensor<2x4x4x5xf32>
  %shifted = autopar.binary sub %logits, %largests : tensor<2x4x4x5xf32>
  %p = autopar.softmax %shifted dim 3 : tensor<2x4x4x5xf32>
  %w = autopar.slice %p starts [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<2x4x4x5xf32> -> tensor<2x4x4x4xf32>
  %y = autopar.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<2x4x4x4xf32>, tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32>
  return %y : tensor<2x4x4x8xf32>
}

// -----

// One number for all heads is a sink for each; a window as a constant, which hides something from the last row alone.
// CHECK-LABEL: func.func @smooth
// CHECK: %[[S:.*]] = autopar.broadcast %{{.*}} dims [] {autopar.id = "y/sink"} : tensor<f32> -> tensor<2xf32>
// CHECK: autopar.attention %arg0, %arg1, %arg1 sink %[[S]] scale 1.000000e+00 causal window 2
// TRIANGLES-LABEL: func.func @smooth
// TRIANGLES: autopar.attention %{{.*}} causal window 2
// CUDNN-LABEL: func.func @smooth
// CUDNN: autopar.attention %{{.*}} causal window 2
func.func @smooth(%q: tensor<1x2x2x8xf32>, %k: tensor<1x2x3x8xf32>) -> tensor<1x2x2x8xf32> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x2x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x2x3xf32>
  %mask = autopar.constant dense<[[[[true, true, false], [false, true, true]]]]> : tensor<1x1x2x3xi1>
  %seen = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<1x1x2x3xi1> -> tensor<1x2x2x3xi1>
  %fill = autopar.constant dense<0xFF800000> : tensor<1x2x2x3xf32>
  %masked = autopar.select %seen, %s, %fill : (tensor<1x2x2x3xi1>, tensor<1x2x2x3xf32>, tensor<1x2x2x3xf32>) -> tensor<1x2x2x3xf32>
  %sink = autopar.constant dense<0.0> : tensor<1x2x2x1xf32>
  %logits = autopar.concat %masked, %sink dim 3 : (tensor<1x2x2x3xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x4xf32>
  %p = autopar.softmax %logits dim 3 : tensor<1x2x2x4xf32>
  %w = autopar.slice %p starts [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x2x2x4xf32> -> tensor<1x2x2x3xf32>
  %y = autopar.dot_general %w, %k batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<1x2x2x3xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x2x8xf32>
  return %y : tensor<1x2x2x8xf32>
}

// -----

// Sinks that differ from row to row, and masks that leave out a column of the window, are none.
// CHECK-LABEL: func.func @no_sink
// CHECK-NOT: autopar.attention
// CHECK: return
// CHECK-LABEL: func.func @no_window
// CHECK: autopar.attention %arg0, %arg0, %arg0 bias %{{[^ ]*}} scale 1.000000e+00 {
func.func @no_sink(%q: tensor<1x2x2x8xf32>, %sink: tensor<1x2x2x1xf32>) -> tensor<1x2x2x8xf32> {
  %s = autopar.dot_general %q, %q batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>) -> tensor<1x2x2x2xf32>
  %logits = autopar.concat %s, %sink dim 3 : (tensor<1x2x2x2xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x3xf32>
  %p = autopar.softmax %logits dim 3 : tensor<1x2x2x3xf32>
  %w = autopar.slice %p starts [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x2x2x3xf32> -> tensor<1x2x2x2xf32>
  %y = autopar.dot_general %w, %q batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<1x2x2x2xf32>, tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32>
  return %y : tensor<1x2x2x8xf32>
}
func.func @no_window(%q: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %s = autopar.dot_general %q, %q batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %mask = autopar.constant dense<[[[[true, false, false, false], [true, true, false, false], [false, true, true, false], [true, false, true, true]]]]> : tensor<1x1x4x4xi1>
  %seen = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %fill = autopar.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %masked = autopar.select %seen, %s, %fill : (tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %p = autopar.softmax %masked dim 3 : tensor<1x2x4x4xf32>
  %y = autopar.dot_general %p, %q batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// -----

// As torch's exporters write scaled_dot_product_attention under a mask of columns and a triangle: a root of the scale on
// either side, one bias for both, zeros in rows that see nothing. The triangle is apart of the mask; a GPU's rows are
// cleared by what hides them together.
// CHECK-LABEL: func.func @torch
// CHECK: %[[B:.*]] = autopar.select %arg3, %{{.*}}, %{{.*}} {autopar.id = "y/mask"} : (tensor<2x1x1x16xi1>, tensor<2x1x1x16xf32>, tensor<2x1x1x16xf32>) -> tensor<2x1x1x16xf32>
// CHECK: %[[Y:.*]], %{{.*}} = autopar.attention %arg0, %arg1, %arg2 bias %[[B]] scale 2.500000e-01 causal {autopar.id = "y"} : (tensor<2x4x16x8xf32>, tensor<2x2x16x8xf32>, tensor<2x2x16x8xf32>, tensor<2x1x1x16xf32>)
// CHECK-NEXT: return %[[Y]]
// TRIANGLES-LABEL: func.func @torch
// TRIANGLES: autopar.attention %arg0, %arg1, %arg2 bias %{{.*}} causal
// CUDNN-LABEL: func.func @torch
// CUDNN: %[[BOTH:.*]] = autopar.select %{{.*}} : (tensor<2x1x16x16xi1>, tensor<2x1x16x16xf32>, tensor<2x1x16x16xf32>) -> tensor<2x1x16x16xf32>
// CUDNN: %[[LARGEST:.*]] = autopar.reduce max %[[BOTH]] dims [3]
// CUDNN: autopar.compare eq %[[LARGEST]]
// CUDNN: autopar.attention %arg0, %arg1, %arg2 bias %{{.*}} scale 2.500000e-01 causal {autopar.id = "y"}
// CUDNN: autopar.select {{.*}} {autopar.id = "y/rows/cleared"}
func.func @torch(%q: tensor<2x4x16x8xf32>, %key: tensor<2x2x16x8xf32>, %value: tensor<2x2x16x8xf32>, %mask: tensor<2x1x1x16xi1>) -> tensor<2x4x16x8xf32> {
  %k0 = autopar.broadcast %key dims [0, 1, 3, 4] : tensor<2x2x16x8xf32> -> tensor<2x2x2x16x8xf32>
  %k1 = autopar.reshape %k0 : tensor<2x2x2x16x8xf32> -> tensor<2x4x16x8xf32>
  %k = autopar.transpose %k1 permutation [0, 1, 3, 2] : tensor<2x4x16x8xf32> -> tensor<2x4x8x16xf32>
  %v0 = autopar.broadcast %value dims [0, 1, 3, 4] : tensor<2x2x16x8xf32> -> tensor<2x2x2x16x8xf32>
  %v = autopar.reshape %v0 : tensor<2x2x2x16x8xf32> -> tensor<2x4x16x8xf32>
  %half = autopar.constant dense<0.5> : tensor<f32>
  %halves = autopar.broadcast %half dims [] : tensor<f32> -> tensor<2x4x16x8xf32>
  %scaledq = autopar.binary mul %q, %halves : tensor<2x4x16x8xf32>
  %halvesk = autopar.broadcast %half dims [] : tensor<f32> -> tensor<2x4x8x16xf32>
  %scaledk = autopar.binary mul %k, %halvesk : tensor<2x4x8x16xf32>
  %positions = autopar.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : tensor<16xi64>
  %column = autopar.broadcast %positions dims [3] : tensor<16xi64> -> tensor<1x1x16x16xi64>
  %row = autopar.broadcast %positions dims [2] : tensor<16xi64> -> tensor<1x1x16x16xi64>
  %before = autopar.compare le %column, %row : (tensor<1x1x16x16xi64>, tensor<1x1x16x16xi64>) -> tensor<1x1x16x16xi1>
  %true = autopar.constant dense<true> : tensor<i1>
  %all = autopar.broadcast %true dims [] : tensor<i1> -> tensor<1x1x16x16xi1>
  %one = autopar.binary and %all, %before : tensor<1x1x16x16xi1>
  %triangle = autopar.broadcast %one dims [0, 1, 2, 3] : tensor<1x1x16x16xi1> -> tensor<2x1x16x16xi1>
  %columns = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<2x1x1x16xi1> -> tensor<2x1x16x16xi1>
  %seen = autopar.binary and %triangle, %columns : tensor<2x1x16x16xi1>
  %zero = autopar.constant dense<0.0> : tensor<f32>
  %zeros = autopar.broadcast %zero dims [] : tensor<f32> -> tensor<2x1x16x16xf32>
  %infinity = autopar.constant dense<0xFF800000> : tensor<f32>
  %infinities = autopar.broadcast %infinity dims [] : tensor<f32> -> tensor<2x1x16x16xf32>
  %bias = autopar.select %seen, %zeros, %infinities : (tensor<2x1x16x16xi1>, tensor<2x1x16x16xf32>, tensor<2x1x16x16xf32>) -> tensor<2x1x16x16xf32>
  %biases = autopar.broadcast %bias dims [0, 1, 2, 3] : tensor<2x1x16x16xf32> -> tensor<2x4x16x16xf32>
  %s = autopar.dot_general %scaledq, %scaledk batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x16x16xf32>
  %masked = autopar.binary add %s, %biases : tensor<2x4x16x16xf32>
  %p = autopar.softmax %masked dim 3 : tensor<2x4x16x16xf32>
  %nan = autopar.compare ne %p, %p : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xi1>
  %none = autopar.broadcast %zero dims [] : tensor<f32> -> tensor<2x4x16x16xf32>
  %w = autopar.select %nan, %none, %p : (tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %y = autopar.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %y : tensor<2x4x16x8xf32>
}

// -----

// Tokens behind a cache that grows: a GPU's library has no triangle beside a mask where rows are fewer than columns, but the
// bias that holds both.
// CHECK-LABEL: func.func @behind
// CHECK: autopar.attention %arg0, %arg1, %arg1 bias %{{.*}} scale 1.000000e+00 causal {{.*}}tensor<1x1x1x20xf32>)
// TRIANGLES-LABEL: func.func @behind
// TRIANGLES: autopar.attention %arg0, %arg1, %arg1 bias %{{.*}} scale 1.000000e+00 causal
// CUDNN-LABEL: func.func @behind
// CUDNN: autopar.attention %arg0, %arg1, %arg1 bias %{{.*}} scale 1.000000e+00 : {{.*}}tensor<1x1x16x20xf32>)
func.func @behind(%q: tensor<1x2x16x8xf32>, %k: tensor<1x2x20x8xf32>, %mask: tensor<1x1x1x20xi1>) -> tensor<1x2x16x8xf32> {
  %columns = autopar.iota dim 3 : tensor<1x1x16x20xi64>
  %rows = autopar.iota dim 2 : tensor<1x1x16x20xi64>
  %number = autopar.constant dense<4> : tensor<i64>
  %past = autopar.broadcast %number dims [] : tensor<i64> -> tensor<1x1x16x20xi64>
  %places = autopar.binary add %rows, %past : tensor<1x1x16x20xi64>
  %triangle = autopar.compare le %columns, %places : (tensor<1x1x16x20xi64>, tensor<1x1x16x20xi64>) -> tensor<1x1x16x20xi1>
  %masks = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<1x1x1x20xi1> -> tensor<1x1x16x20xi1>
  %seen = autopar.binary and %triangle, %masks : tensor<1x1x16x20xi1>
  %zero = autopar.constant dense<0.0> : tensor<1x1x16x20xf32>
  %lowest = autopar.constant dense<-1.0e10> : tensor<1x1x16x20xf32>
  %bias = autopar.select %seen, %zero, %lowest : (tensor<1x1x16x20xi1>, tensor<1x1x16x20xf32>, tensor<1x1x16x20xf32>) -> tensor<1x1x16x20xf32>
  %biases = autopar.broadcast %bias dims [0, 1, 2, 3] : tensor<1x1x16x20xf32> -> tensor<1x2x16x20xf32>
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<1x2x16x8xf32>, tensor<1x2x20x8xf32>) -> tensor<1x2x16x20xf32>
  %masked = autopar.binary add %s, %biases : tensor<1x2x16x20xf32>
  %p = autopar.softmax %masked dim 3 : tensor<1x2x16x20xf32>
  %y = autopar.dot_general %p, %k batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<1x2x16x20xf32>, tensor<1x2x20x8xf32>) -> tensor<1x2x16x8xf32>
  return %y : tensor<1x2x16x8xf32>
}
