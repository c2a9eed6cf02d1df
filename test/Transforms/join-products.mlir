// RUN: autopar-opt %s --autopar-join-products | FileCheck %s

// Query, key and value: heads side by side, one bias missing, scores before values, a weight that is made behind the first product.
// CHECK-LABEL: func.func @attention
// CHECK-DAG: %[[C:.*]] = autopar.cast %arg3 : tensor<64x2x16xf32> -> tensor<64x2x16xbf16>
// CHECK-DAG: %[[W:.*]] = autopar.concat %arg1, %arg2, %[[C]] dim 1 {autopar.id = "q/joined.weights", autopar.stage = 1 : i64} : {{.*}} -> tensor<64x8x16xbf16>
// CHECK-DAG: %[[Z:.*]] = autopar.constant {autopar.id = "v/zeros", autopar.stage = 1 : i64} dense<0.000000e+00> : tensor<2x16xbf16>
// CHECK-DAG: %[[B:.*]] = autopar.concat %arg4, %arg5, %[[Z]] dim 0 {{.*}} -> tensor<8x16xbf16>
// CHECK-DAG: %[[P:.*]] = autopar.dot_general %arg0, %[[W]] contract [2] x [0] {autopar.id = "q/joined", autopar.stage = 1 : i64} : {{.*}} -> tensor<1x8x8x16xbf16>
// CHECK: %[[R:.*]] = autopar.broadcast %[[B]] dims [2, 3] {{.*}} : tensor<8x16xbf16> -> tensor<1x8x8x16xbf16>
// CHECK: %[[S:.*]] = autopar.binary add %[[P]], %[[R]]
// CHECK: %[[Q:.*]] = autopar.slice %[[S]] starts [0, 0, 0, 0] steps [1, 1, 1, 1] {autopar.id = "q.add", autopar.stage = 1 : i64} : {{.*}} -> tensor<1x8x4x16xbf16>
// CHECK: %[[K:.*]] = autopar.slice %[[S]] starts [0, 0, 4, 0] {{.*}} {autopar.id = "k.add", {{.*}} -> tensor<1x8x2x16xbf16>
// CHECK: %[[V:.*]] = autopar.slice %[[S]] starts [0, 0, 6, 0] {{.*}} {autopar.id = "v", {{.*}} -> tensor<1x8x2x16xbf16>
// CHECK: autopar.dot_general %[[Q]], %[[K]]
// CHECK: autopar.unary exp %[[V]]
func.func @attention(%x: tensor<1x8x64xbf16>, %q: tensor<64x4x16xbf16> {autopar.origin = @q}, %k: tensor<64x2x16xbf16> {autopar.origin = @k},
                     %v: tensor<64x2x16xf32> {autopar.origin = @v}, %bq: tensor<4x16xbf16> {autopar.origin = @bq}, %bk: tensor<2x16xbf16> {autopar.origin = @bk})
    -> (tensor<1x8x4x8x2xbf16>, tensor<1x8x2x16xbf16>) {
  %0 = autopar.dot_general %x, %q contract [2] x [0] {autopar.id = "q", autopar.stage = 1} : (tensor<1x8x64xbf16>, tensor<64x4x16xbf16>) -> tensor<1x8x4x16xbf16>
  %1 = autopar.broadcast %bq dims [2, 3] : tensor<4x16xbf16> -> tensor<1x8x4x16xbf16>
  %2 = autopar.binary add %1, %0 {autopar.id = "q.add", autopar.stage = 1} : tensor<1x8x4x16xbf16>
  %3 = autopar.dot_general %x, %k contract [2] x [0] {autopar.id = "k", autopar.stage = 1} : (tensor<1x8x64xbf16>, tensor<64x2x16xbf16>) -> tensor<1x8x2x16xbf16>
  %4 = autopar.broadcast %bk dims [2, 3] : tensor<2x16xbf16> -> tensor<1x8x2x16xbf16>
  %5 = autopar.binary add %3, %4 {autopar.id = "k.add", autopar.stage = 1} : tensor<1x8x2x16xbf16>
  %6 = autopar.dot_general %2, %5 batch [0] x [0] contract [3] x [3] : (tensor<1x8x4x16xbf16>, tensor<1x8x2x16xbf16>) -> tensor<1x8x4x8x2xbf16>
  %7 = autopar.cast %v : tensor<64x2x16xf32> -> tensor<64x2x16xbf16>
  %8 = autopar.dot_general %x, %7 contract [2] x [0] {autopar.id = "v", autopar.stage = 1} : (tensor<1x8x64xbf16>, tensor<64x2x16xbf16>) -> tensor<1x8x2x16xbf16>
  %9 = autopar.unary exp %8 : tensor<1x8x2x16xbf16>
  return %6, %9 : tensor<1x8x4x8x2xbf16>, tensor<1x8x2x16xbf16>
}

// Gate and value of an MLP, weights with the contracted dimension behind; an activation goes on with the product behind it.
// CHECK-LABEL: func.func @gated
// CHECK: autopar.concat %arg1, %arg2 dim 0 {autopar.id = "gate/joined.weights"} : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
// CHECK: autopar.dot_general %arg0, %{{.*}} contract [1] x [1] {autopar.id = "gate/joined"} : (tensor<8x16xf32>, tensor<64x16xf32>) -> tensor<8x64xf32>
// CHECK: autopar.slice {{.*}} starts [0, 32]
// CHECK-NOT: autopar.dot_general
func.func @gated(%x: tensor<8x16xf32>, %a: tensor<32x16xf32> {autopar.origin = @a}, %b: tensor<32x16xf32> {autopar.origin = @b}) -> tensor<8x32xf32> {
  %0 = autopar.dot_general %x, %a contract [1] x [1] {autopar.id = "gate"} : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %1 = autopar.unary gelu_tanh %0 : tensor<8x32xf32>
  %2 = autopar.dot_general %x, %b contract [1] x [1] {autopar.id = "value"} : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %3 = autopar.binary mul %1, %2 : tensor<8x32xf32>
  return %3 : tensor<8x32xf32>
}

// What stays apart beside %0 and %1: a weight that the step replaces, one that somebody else reads, a result that leaves the function, an activation and a
// residual of the library's, another dimension, rows of an odd number of bytes, another stage, and what comes much later.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-1: autopar.concat
// CHECK-COUNT-12: autopar.dot_general
// CHECK-NOT: autopar.dot_general
func.func @apart(%x: tensor<8x16xf32>, %a: tensor<16x32xf32> {autopar.origin = @a}, %b: tensor<16x32xf32> {autopar.origin = @b},
                 %donated: tensor<16x32xf32> {autopar.donated, autopar.origin = @c}, %shared: tensor<16x32xf32> {autopar.origin = @d},
                 %d: tensor<16x32xf32> {autopar.origin = @e}, %e: tensor<16x32xf32> {autopar.origin = @f}, %f: tensor<16x32xf32> {autopar.origin = @g},
                 %g: tensor<32x16xf32> {autopar.origin = @h}, %h: tensor<16x3xf32> {autopar.origin = @i}, %i: tensor<16x32xf32> {autopar.origin = @j},
                 %j: tensor<16x32xf32> {autopar.origin = @k}, %r: tensor<8x32xf32>)
    -> (tensor<8x32xf32>, tensor<8x32xf32>, tensor<16x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x3xf32>, tensor<8x32xf32>, tensor<8x32xf32>) {
  %0 = autopar.dot_general %x, %a contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = autopar.dot_general %x, %b contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %2 = autopar.binary mul %0, %1 : tensor<8x32xf32>
  %3 = autopar.dot_general %x, %donated contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %4 = autopar.binary mul %2, %3 : tensor<8x32xf32>
  %5 = autopar.dot_general %x, %shared contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %6 = autopar.binary mul %4, %5 : tensor<8x32xf32>
  %7 = autopar.dot_general %x, %d contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %8 = autopar.dot_general %x, %e contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %9 = autopar.unary relu %8 : tensor<8x32xf32>
  %10 = autopar.dot_general %x, %f contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %11 = autopar.binary add %10, %r : tensor<8x32xf32>
  %12 = autopar.dot_general %x, %g contract [1] x [1] : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %13 = autopar.unary exp %12 : tensor<8x32xf32>
  %14 = autopar.dot_general %x, %h contract [1] x [0] : (tensor<8x16xf32>, tensor<16x3xf32>) -> tensor<8x3xf32>
  %15 = autopar.unary exp %14 : tensor<8x3xf32>
  %16 = autopar.dot_general %x, %i contract [1] x [0] {autopar.stage = 1} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %17 = autopar.unary exp %16 : tensor<8x32xf32>
  %18 = autopar.dot_general %6, %6 contract [0] x [0] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %19 = autopar.dot_general %r, %18 contract [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
  %20 = autopar.dot_general %x, %j contract [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %21 = autopar.binary mul %19, %20 : tensor<8x32xf32>
  return %6, %7, %shared, %9, %11, %13, %15, %17, %21 : tensor<8x32xf32>, tensor<8x32xf32>, tensor<16x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x3xf32>, tensor<8x32xf32>, tensor<8x32xf32>
}

// Products that are scaled to 8 bits, which nothing of the library's follows: what is added is so behind the part.
// CHECK-LABEL: func.func @scaled
// CHECK: autopar.dot_general %arg0, %{{.*}} contract [1] x [1] scaled_to f8E4M3FN {autopar.id = "a/joined"} : (tensor<8x16xbf16>, tensor<64x16xbf16>) -> tensor<8x64xbf16>
// CHECK: %[[A:.*]] = autopar.slice {{.*}} starts [0, 0]
// CHECK: %[[B:.*]] = autopar.slice {{.*}} starts [0, 32]
// CHECK: autopar.dot_general {{.*}}"apart"
// CHECK: autopar.binary add %[[B]], %[[A]]
func.func @scaled(%x: tensor<8x16xbf16>, %a: tensor<32x16xbf16> {autopar.origin = @a}, %b: tensor<32x16xbf16> {autopar.origin = @b}, %c: tensor<32x16xbf16> {autopar.origin = @c}) -> (tensor<8x32xbf16>, tensor<8x32xbf16>) {
  %0 = autopar.dot_general %x, %a contract [1] x [1] scaled_to f8E4M3FN {autopar.id = "a"} : (tensor<8x16xbf16>, tensor<32x16xbf16>) -> tensor<8x32xbf16>
  %1 = autopar.dot_general %x, %b contract [1] x [1] scaled_to f8E4M3FN {autopar.id = "b"} : (tensor<8x16xbf16>, tensor<32x16xbf16>) -> tensor<8x32xbf16>
  %2 = autopar.dot_general %x, %c contract [1] x [1] {autopar.id = "apart"} : (tensor<8x16xbf16>, tensor<32x16xbf16>) -> tensor<8x32xbf16>
  %3 = autopar.binary add %1, %0 : tensor<8x32xbf16>
  %4 = autopar.unary exp %2 : tensor<8x32xbf16>
  return %3, %4 : tensor<8x32xbf16>, tensor<8x32xbf16>
}

// Weights that a step makes of fewer bytes would be copied in every step: they stay apart.
// CHECK-LABEL: func.func @dequantized
// CHECK-NOT: autopar.concat
// CHECK-COUNT-2: autopar.dot_general
func.func @dequantized(%x: tensor<64x512xbf16>, %a: tensor<512x512xi8> {autopar.origin = @a}, %b: tensor<512x512xi8> {autopar.origin = @b})
    -> tensor<64x512xbf16> {
  %0 = autopar.cast %a : tensor<512x512xi8> -> tensor<512x512xbf16>
  %1 = autopar.dot_general %x, %0 contract [1] x [0] : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %2 = autopar.cast %b : tensor<512x512xi8> -> tensor<512x512xbf16>
  %3 = autopar.dot_general %x, %2 contract [1] x [0] : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %4 = autopar.binary mul %1, %3 : tensor<64x512xbf16>
  return %4 : tensor<64x512xbf16>
}
