// RUN: autopar-opt %s --autopar-expand-attention | FileCheck %s
// RUN: autopar-opt %s --autopar-expand-attention=mode=auto | FileCheck %s --check-prefix=KEPT
// RUN: autopar-opt %s --autopar-expand-attention="mode=auto target=cuda" | FileCheck %s --check-prefixes=CHECK,CUDNN
// RUN: autopar-opt %s --autopar-expand-attention="mode=auto target=cuda chip=100" | FileCheck %s --check-prefix=BLACKWELL
// RUN: autopar-opt %s --autopar-expand-attention="mode=auto target=cuda chip=120" | FileCheck %s --check-prefix=CUDNN
// RUN: autopar-opt %s --autopar-expand-attention="rows=2" | FileCheck %s --check-prefix=ROWS
// RUN: not autopar-opt %s --autopar-expand-attention=mode=some 2>&1 | FileCheck %s --check-prefix=MODE

// MODE: error: attention: expected auto, fused or products, got "some"

// CHECK-LABEL: func.func @forward
// CHECK: %[[S:.*]] = autopar.dot_general %arg0, %{{.*}} batch [0, 1] x [0, 1] contract [3] x [3] {autopar.id = "a/scores"}
// CHECK: autopar.compare le
// CHECK: %[[P:.*]] = autopar.softmax %{{.*}} dim 3 {autopar.id = "a/softmax"} : tensor<2x4x3x5xf32>
// CHECK: %[[Y:.*]] = autopar.dot_general %[[P]], %{{.*}} batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "a"}
// CHECK-NOT: autopar.attention
// CHECK: return %[[Y]]
// KEPT-LABEL: func.func @forward
// KEPT: autopar.attention
// The last two of five keys are hidden from the first two of three rows, one of them from the first.
// ROWS-LABEL: func.func @forward
// ROWS: %[[K:.*]] = autopar.reshape {{.*}} {autopar.id = "a/key.repeated"} : {{.*}} -> tensor<2x4x5x8xf32>
// ROWS: %[[Q0:.*]] = autopar.slice %arg0 starts [0, 0, 0, 0] {{.*}} {autopar.id = "a/rows.0.query"} : {{.*}} -> tensor<2x4x2x8xf32>
// ROWS: %[[K0:.*]] = autopar.slice %[[K]] starts [0, 0, 0, 0] {{.*}} -> tensor<2x4x4x8xf32>
// ROWS: autopar.dot_general %[[Q0]], %[[K0]] {{.*}} -> tensor<2x4x2x4xf32>
// ROWS: %[[O0:.*]] = autopar.dot_general {{.*}} {autopar.id = "a/rows.0.output"} : {{.*}} -> tensor<2x4x2x6xf32>
// ROWS: %[[Q1:.*]] = autopar.slice %arg0 starts [0, 0, 2, 0] {{.*}} -> tensor<2x4x1x8xf32>
// ROWS: autopar.dot_general %[[Q1]], %[[K]] {{.*}} -> tensor<2x4x1x5xf32>
// ROWS: %[[O1:.*]] = autopar.dot_general {{.*}} {autopar.id = "a/rows.2.output"} : {{.*}} -> tensor<2x4x1x6xf32>
// ROWS: %[[T0:.*]] = autopar.transpose %[[O0]] permutation [0, 2, 1, 3]
// ROWS: %[[T1:.*]] = autopar.transpose %[[O1]] permutation [0, 2, 1, 3]
// ROWS: %[[O:.*]] = autopar.concat %[[T0]], %[[T1]] dim 1 {{.*}} -> tensor<2x3x4x6xf32>
// ROWS: %[[Y:.*]] = autopar.transpose %[[O]] permutation [0, 2, 1, 3] {autopar.id = "a"}
// ROWS: return %[[Y]]
func.func @forward(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x5x8xf32>, %v: tensor<2x2x5x6xf32>) -> tensor<2x4x3x6xf32> {
  %y, %l = autopar.attention %q, %k, %v scale 0.5 causal {autopar.id = "a"} : (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xf32>) -> (tensor<2x4x3x6xf32>, tensor<2x4x3xf32>)
  return %y : tensor<2x4x3x6xf32>
}

// Row sums give the probabilities again.
// CHECK-LABEL: func.func @backward
// CHECK: autopar.unary exp
// CHECK-NOT: autopar.attention_grad
// CHECK: return
// KEPT-LABEL: func.func @backward
// KEPT: autopar.attention_grad
func.func @backward(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x5x8xf32>, %v: tensor<2x2x5x6xf32>, %b: tensor<2x1x1x5xf32>, %o: tensor<2x4x3x6xf32>, %l: tensor<2x4x3xf32>, %g: tensor<2x4x3x6xf32>)
    -> (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xf32>) {
  %dq, %dk, %dv = autopar.attention_grad %q, %k, %v, %o, %l, %g bias %b scale 0.5
      : (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xf32>, tensor<2x4x3x6xf32>, tensor<2x4x3xf32>, tensor<2x4x3x6xf32>, tensor<2x1x1x5xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xf32>)
  return %dq, %dk, %dv : tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xf32>
}

// What cuDNN takes stays on a GPU; a triangle that leaves rows without a column does not.
// CUDNN-LABEL: func.func @half
// CUDNN: autopar.attention %arg0, %arg1, %arg1 scale 1.000000e+00 causal
// CUDNN-NOT: autopar.attention
func.func @half(%x: tensor<2x4x16x8xbf16>, %long: tensor<2x4x24x8xbf16>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x24x8xbf16>) {
  %y, %l = autopar.attention %x, %long, %long scale 1.0 causal {autopar.id = "a"} : (tensor<2x4x16x8xbf16>, tensor<2x4x24x8xbf16>, tensor<2x4x24x8xbf16>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16xf32>)
  %z, %m = autopar.attention %long, %x, %x scale 1.0 causal {autopar.id = "b"} : (tensor<2x4x24x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>) -> (tensor<2x4x24x8xbf16>, tensor<2x4x24xf32>)
  return %y, %z : tensor<2x4x16x8xbf16>, tensor<2x4x24x8xbf16>
}

// With a bias only a triangle of a square stays.
// CUDNN-LABEL: func.func @biased
// CUDNN: autopar.attention %arg0, %arg0, %arg0 bias %arg2 scale 1.000000e+00 causal
// CUDNN: autopar.attention %arg0, %arg1, %arg1 bias %arg3 scale 1.000000e+00 {
// CUDNN-NOT: autopar.attention
func.func @biased(%x: tensor<2x4x16x8xbf16>, %long: tensor<2x4x24x8xbf16>, %square: tensor<2x1x1x16xf32>, %wide: tensor<2x1x1x24xf32>)
    -> (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>) {
  %a, %l = autopar.attention %x, %x, %x bias %square scale 1.0 causal {autopar.id = "a"} : (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x1x1x16xf32>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16xf32>)
  %b, %m = autopar.attention %x, %long, %long bias %wide scale 1.0 {autopar.id = "b"} : (tensor<2x4x16x8xbf16>, tensor<2x4x24x8xbf16>, tensor<2x4x24x8xbf16>, tensor<2x1x1x24xf32>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16xf32>)
  %c, %n = autopar.attention %x, %long, %long bias %wide scale 1.0 causal {autopar.id = "c"} : (tensor<2x4x16x8xbf16>, tensor<2x4x24x8xbf16>, tensor<2x4x24x8xbf16>, tensor<2x1x1x24xf32>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16xf32>)
  return %a, %b, %c : tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>
}

// Of gradients, those with a bias and an odd multiple of 64 keys, and of one query, are left to products on a GPU.
// CUDNN-LABEL: func.func @gradients
// CUDNN-COUNT-2: autopar.attention_grad
// CUDNN-NOT: autopar.attention_grad
func.func @gradients(%x: tensor<1x1x64x8xbf16>, %b: tensor<1x1x1x64xf32>, %l: tensor<1x1x64xf32>,
                     %y: tensor<1x1x128x8xbf16>, %c: tensor<1x1x1x128xf32>, %m: tensor<1x1x128xf32>,
                     %q: tensor<1x1x1x8xbf16>, %n: tensor<1x1x1xf32>)
    -> (tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x128x8xbf16>, tensor<1x1x1x8xbf16>) {
  %0, %1, %2 = autopar.attention_grad %x, %x, %x, %x, %l, %x bias %b scale 1.0
      : (tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64xf32>, tensor<1x1x64x8xbf16>, tensor<1x1x1x64xf32>) -> (tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>)
  %3, %4, %5 = autopar.attention_grad %x, %x, %x, %x, %l, %x scale 1.0
      : (tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64xf32>, tensor<1x1x64x8xbf16>) -> (tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>)
  %6, %7, %8 = autopar.attention_grad %y, %y, %y, %y, %m, %y bias %c scale 1.0
      : (tensor<1x1x128x8xbf16>, tensor<1x1x128x8xbf16>, tensor<1x1x128x8xbf16>, tensor<1x1x128x8xbf16>, tensor<1x1x128xf32>, tensor<1x1x128x8xbf16>, tensor<1x1x1x128xf32>) -> (tensor<1x1x128x8xbf16>, tensor<1x1x128x8xbf16>, tensor<1x1x128x8xbf16>)
  %9, %10, %11 = autopar.attention_grad %q, %x, %x, %q, %n, %q scale 1.0
      : (tensor<1x1x1x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x1x8xbf16>, tensor<1x1x1xf32>, tensor<1x1x1x8xbf16>) -> (tensor<1x1x1x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>)
  return %0, %3, %6, %9 : tensor<1x1x64x8xbf16>, tensor<1x1x64x8xbf16>, tensor<1x1x128x8xbf16>, tensor<1x1x1x8xbf16>
}

// In f32 long triangles are eight blocks of rows on a GPU, four of more rows where there are fewer heads; none where heads or rows are few, or so few of
// the keys are hidden that it does not pay.
// CUDNN-LABEL: func.func @long
// CUDNN-COUNT-8: autopar.softmax {{.*}} : tensor<16x12x128x{{[0-9]+}}xf32>
// CUDNN-COUNT-4: autopar.softmax {{.*}} : tensor<6x12x256x{{[0-9]+}}xf32>
// CUDNN: autopar.softmax {{.*}} : tensor<1x12x1024x1024xf32>
// CUDNN: autopar.softmax {{.*}} : tensor<16x12x384x384xf32>
// CUDNN: autopar.softmax {{.*}} : tensor<16x12x1024x4096xf32>
// CUDNN-NOT: autopar.softmax
func.func @long(%a: tensor<16x12x1024x64xf32>, %b: tensor<6x12x1024x64xf32>, %c: tensor<1x12x1024x64xf32>, %d: tensor<16x12x384x64xf32>, %e: tensor<16x12x1024x64xf32>, %keys: tensor<16x12x4096x64xf32>)
    -> (tensor<16x12x1024x64xf32>, tensor<6x12x1024x64xf32>, tensor<1x12x1024x64xf32>, tensor<16x12x384x64xf32>, tensor<16x12x1024x64xf32>) {
  %0, %l0 = autopar.attention %a, %a, %a scale 1.0 causal {autopar.id = "a"} : (tensor<16x12x1024x64xf32>, tensor<16x12x1024x64xf32>, tensor<16x12x1024x64xf32>) -> (tensor<16x12x1024x64xf32>, tensor<16x12x1024xf32>)
  %1, %l1 = autopar.attention %b, %b, %b scale 1.0 causal {autopar.id = "b"} : (tensor<6x12x1024x64xf32>, tensor<6x12x1024x64xf32>, tensor<6x12x1024x64xf32>) -> (tensor<6x12x1024x64xf32>, tensor<6x12x1024xf32>)
  %2, %l2 = autopar.attention %c, %c, %c scale 1.0 causal {autopar.id = "c"} : (tensor<1x12x1024x64xf32>, tensor<1x12x1024x64xf32>, tensor<1x12x1024x64xf32>) -> (tensor<1x12x1024x64xf32>, tensor<1x12x1024xf32>)
  %3, %l3 = autopar.attention %d, %d, %d scale 1.0 causal {autopar.id = "d"} : (tensor<16x12x384x64xf32>, tensor<16x12x384x64xf32>, tensor<16x12x384x64xf32>) -> (tensor<16x12x384x64xf32>, tensor<16x12x384xf32>)
  %4, %l4 = autopar.attention %e, %keys, %keys scale 1.0 causal {autopar.id = "e"} : (tensor<16x12x1024x64xf32>, tensor<16x12x4096x64xf32>, tensor<16x12x4096x64xf32>) -> (tensor<16x12x1024x64xf32>, tensor<16x12x1024xf32>)
  return %0, %1, %2, %3, %4 : tensor<16x12x1024x64xf32>, tensor<6x12x1024x64xf32>, tensor<1x12x1024x64xf32>, tensor<16x12x384x64xf32>, tensor<16x12x1024x64xf32>
}

// Of parts of a triangle's rows, a GPU has those as one call that leave each rank more than one score. Products compare with the place among all rows.
// CUDNN-LABEL: func.func @parts
// CUDNN: autopar.attention %arg0, %arg1, %arg1 scale 1.000000e+00 causal shard %arg2 of 2
// CUDNN-NOT: autopar.attention
// CHECK: %[[ROW:.*]] = autopar.iota dim 2 {autopar.id = "b/row"} : tensor<1x1x1x2xi32>
// CHECK: %[[COLUMN:.*]] = autopar.iota dim 3
// CHECK: autopar.binary mul %arg2, {{.*}} {autopar.id = "b/first_row"} : tensor<i64>
// CHECK: %[[LAST:.*]] = autopar.binary add %[[ROW]], {{.*}} {autopar.id = "b/in_all_rows"}
// CHECK: autopar.compare le %[[COLUMN]], %[[LAST]]
func.func @parts(%q: tensor<1x1x2x8xbf16>, %k: tensor<1x1x8x8xbf16>, %i: tensor<i64>, %one: tensor<1x1x1x8xbf16>, %two: tensor<1x1x2x8xbf16>)
    -> (tensor<1x1x2x8xbf16>, tensor<1x1x1x8xbf16>) {
  %y, %l = autopar.attention %q, %k, %k scale 1.0 causal shard %i of 2 {autopar.id = "a"} : (tensor<1x1x2x8xbf16>, tensor<1x1x8x8xbf16>, tensor<1x1x8x8xbf16>, tensor<i64>) -> (tensor<1x1x2x8xbf16>, tensor<1x1x2xf32>)
  %z, %m = autopar.attention %one, %two, %two scale 1.0 causal shard %i of 2 {autopar.id = "b"} : (tensor<1x1x1x8xbf16>, tensor<1x1x2x8xbf16>, tensor<1x1x2x8xbf16>, tensor<i64>) -> (tensor<1x1x1x8xbf16>, tensor<1x1x1xf32>)
  return %y, %z : tensor<1x1x2x8xbf16>, tensor<1x1x1x8xbf16>
}

// Latent attention stays on Hopper and Blackwell of data centers; other long rows do not.
// CUDNN-LABEL: func.func @latent
// CUDNN-NOT: autopar.attention
// BLACKWELL-LABEL: func.func @latent
// BLACKWELL: autopar.attention %arg0, %arg0, %arg1
// BLACKWELL-NOT: autopar.attention
func.func @latent(%x: tensor<1x2x8x192xbf16>, %v: tensor<1x2x8x128xbf16>) -> (tensor<1x2x8x128xbf16>, tensor<1x2x8x192xbf16>) {
  %y, %l = autopar.attention %x, %x, %v scale 1.0 {autopar.id = "a"} : (tensor<1x2x8x192xbf16>, tensor<1x2x8x192xbf16>, tensor<1x2x8x128xbf16>) -> (tensor<1x2x8x128xbf16>, tensor<1x2x8xf32>)
  %z, %m = autopar.attention %x, %x, %x scale 1.0 {autopar.id = "b"} : (tensor<1x2x8x192xbf16>, tensor<1x2x8x192xbf16>, tensor<1x2x8x192xbf16>) -> (tensor<1x2x8x192xbf16>, tensor<1x2x8xf32>)
  return %y, %z : tensor<1x2x8x128xbf16>, tensor<1x2x8x192xbf16>
}

// Rows of a window see the keys from the first one's first on; a sink is a column that is dropped.
// CHECK-LABEL: func.func @window
// CHECK: %[[NEAR:.*]] = autopar.compare gt %{{.*}} {autopar.id = "a/near"}
// CHECK: autopar.binary and %{{.*}}, %[[NEAR]] {autopar.id = "a/seen_near"}
// CHECK: %[[SINK:.*]] = autopar.broadcast %arg1 dims [1] {autopar.id = "a/sink"} : tensor<2xf32> -> tensor<1x2x6x1xf32>
// CHECK: %[[ALL:.*]] = autopar.concat %{{.*}}, %[[SINK]] dim 3 {autopar.id = "a/scores.sink"}
// CHECK: %[[P:.*]] = autopar.softmax %[[ALL]] dim 3
// CHECK: %[[W:.*]] = autopar.slice %[[P]] starts [0, 0, 0, 0] {{.*}} -> tensor<1x2x6x6xf32>
// CHECK: autopar.dot_general %[[W]], %arg0
// ROWS-LABEL: func.func @window
// ROWS: autopar.slice %arg0 starts [0, 0, 0, 0] {{.*}} {autopar.id = "a/rows.2.key"} : {{.*}} -> tensor<1x2x4x8xf32>
// ROWS: autopar.slice %arg0 starts [0, 0, 2, 0] {{.*}} {autopar.id = "a/rows.4.key"} : {{.*}} -> tensor<1x2x4x8xf32>
func.func @window(%x: tensor<1x2x6x8xf32>, %s: tensor<2xf32>) -> tensor<1x2x6x8xf32> {
  %y, %l = autopar.attention %x, %x, %x sink %s scale 0.5 causal window 3 {autopar.id = "a"} : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<2xf32>) -> (tensor<1x2x6x8xf32>, tensor<1x2x6xf32>)
  return %y : tensor<1x2x6x8xf32>
}
