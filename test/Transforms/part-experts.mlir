// RUN: autopar-opt %s --split-input-file --autopar-part-experts=parts=2 | FileCheck %s
// RUN: autopar-opt %s --split-input-file --autopar-part-experts=parts=1 | FileCheck %s --check-prefix=WHOLE
// RUN: autopar-opt %s --split-input-file --autopar-part-experts="parts=2" --autopar-part-experts="parts=2" | FileCheck %s

// What lies between products has parts; tokens get them as they are repeated, the sum over them is
// that of a token's results. Biases of experts are looked up in parts, and of the last products
// only where a row's expert is.

// WHOLE-NOT: in_parts
// CHECK-LABEL: @mixture
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<6x16xf32> {autopar.name = "x"}, %[[E:[a-z0-9]*]]: tensor<6x2xi64>
// CHECK: %[[OWNER:.*]] = autopar.binary div %{{.*}} : tensor<6x2xi64>
// CHECK: %[[PART:.*]] = autopar.iota dim 0 : tensor<2x6x2xi64>
// CHECK: %[[OF:.*]] = autopar.broadcast %[[OWNER]] dims [1, 2]
// CHECK: %[[OWN:.*]] = autopar.compare eq %[[OF]], %[[PART]]
// CHECK: %[[ROWS:.*]] = autopar.broadcast %[[X]] dims [1, 3] {autopar.id = "up/parts.0"} : tensor<6x16xf32> -> tensor<2x6x2x16xf32>
// CHECK: %[[UP:.*]] = autopar.grouped_dot %[[ROWS]], %{{.*}}, %[[E]] in_parts {autopar.id = "up"}
// CHECK: %[[SHIFTED:.*]] = autopar.binary add %[[UP]], %{{.*}} {autopar.id = "shifted"} : tensor<2x6x2x32xf32>
// CHECK: %[[RELU:.*]] = autopar.binary max %[[SHIFTED]], %{{.*}} {autopar.id = "relu"}
// CHECK: %[[DOWN:.*]] = autopar.grouped_dot %[[RELU]], %{{.*}}, %[[E]] in_parts {autopar.id = "down"}
// CHECK: %[[BIAS:.*]] = autopar.gather {{.*}} -> tensor<2x6x2x16xf32>
// CHECK: %[[WIDE:.*]] = autopar.broadcast %[[OWN]] dims [0, 1, 2]
// CHECK: %[[OWNBIAS:.*]] = autopar.select %[[WIDE]], %[[BIAS]], %{{.*}} {autopar.id = "biased/own"}
// CHECK: %[[BIASED:.*]] = autopar.binary add %[[DOWN]], %[[OWNBIAS]]
// CHECK: %[[WEIGHTED:.*]] = autopar.binary mul %{{.*}}, %[[BIASED]] {autopar.id = "weighted"}
// CHECK: %[[SUM:.*]] = autopar.reduce sum %[[WEIGHTED]] dims [0, 2] {autopar.id = "sum"} : tensor<2x6x2x16xf32> -> tensor<6x16xf32>
// CHECK: return %[[SUM]]
autopar.origin @u : tensor<4x16x32xf32>
autopar.origin @d : tensor<4x32x16xf32>
autopar.origin @a : tensor<4x32xf32>
autopar.origin @b : tensor<4x16xf32>
func.func @mixture(%x: tensor<6x16xf32> {autopar.name = "x"}, %e: tensor<6x2xi64> {autopar.name = "e"}, %w: tensor<6x2xf32> {autopar.name = "w"}, %u: tensor<4x16x32xf32> {autopar.name = "u", autopar.origin = @u}, %d: tensor<4x32x16xf32> {autopar.name = "d", autopar.origin = @d}, %a: tensor<4x32xf32> {autopar.name = "a", autopar.origin = @a}, %b: tensor<4x16xf32> {autopar.name = "b", autopar.origin = @b}) -> tensor<6x16xf32> {
  %zero = autopar.constant dense<0.0> : tensor<6x2x32xf32>
  %rows = autopar.broadcast %x dims [0, 2] {autopar.id = "rows"} : tensor<6x16xf32> -> tensor<6x2x16xf32>
  %0 = autopar.grouped_dot %rows, %u, %e {autopar.id = "up"} : (tensor<6x2x16xf32>, tensor<4x16x32xf32>, tensor<6x2xi64>) -> tensor<6x2x32xf32>
  %i = autopar.reshape %e {autopar.id = "which"} : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %shift = autopar.gather %a, %i dims [0] batch 0 {autopar.id = "shift"} : (tensor<4x32xf32>, tensor<6x2x1xi64>) -> tensor<6x2x32xf32>
  %1 = autopar.binary add %0, %shift {autopar.id = "shifted"} : tensor<6x2x32xf32>
  %2 = autopar.binary max %1, %zero {autopar.id = "relu"} : tensor<6x2x32xf32>
  %3 = autopar.grouped_dot %2, %d, %e {autopar.id = "down"} : (tensor<6x2x32xf32>, tensor<4x32x16xf32>, tensor<6x2xi64>) -> tensor<6x2x16xf32>
  %bias = autopar.gather %b, %i dims [0] batch 0 {autopar.id = "bias"} : (tensor<4x16xf32>, tensor<6x2x1xi64>) -> tensor<6x2x16xf32>
  %4 = autopar.binary add %3, %bias {autopar.id = "biased"} : tensor<6x2x16xf32>
  %5 = autopar.broadcast %w dims [0, 1] {autopar.id = "weights"} : tensor<6x2xf32> -> tensor<6x2x16xf32>
  %6 = autopar.binary mul %5, %4 {autopar.id = "weighted"} : tensor<6x2x16xf32>
  %7 = autopar.reduce sum %6 dims [1] {autopar.id = "sum"} : tensor<6x2x16xf32> -> tensor<6x16xf32>
  return %7 : tensor<6x16xf32>
}

// -----

// What something else reads too is summed at once; so is what is added to something that is no
// expert's, before it.

// CHECK-LABEL: @read_elsewhere
// CHECK: %[[UP:.*]] = autopar.grouped_dot {{.*}} in_parts {autopar.id = "up"}
// CHECK: %[[ALL:.*]] = autopar.reduce sum %[[UP]] dims [0] {autopar.id = "up/sum"}
// CHECK: %[[RELU:.*]] = autopar.unary relu %[[ALL]] {autopar.id = "relu"} : tensor<6x32xf32>
// CHECK: %[[AGAIN:.*]] = autopar.broadcast %[[RELU]] dims [1, 2] {autopar.id = "down/parts.1"}
// CHECK: %[[DOWN:.*]] = autopar.grouped_dot %[[AGAIN]]
// CHECK: %[[Y:.*]] = autopar.reduce sum %[[DOWN]] dims [0] {autopar.id = "down/sum"}
// CHECK: autopar.binary add %{{.*}}, %[[Y]] {autopar.id = "residual"} : tensor<6x16xf32>
autopar.origin @u : tensor<4x16x32xf32>
autopar.origin @d : tensor<4x32x16xf32>
func.func @read_elsewhere(%x: tensor<6x16xf32> {autopar.name = "x"}, %e: tensor<6xi64> {autopar.name = "e"}, %u: tensor<4x16x32xf32> {autopar.name = "u", autopar.origin = @u}, %d: tensor<4x32x16xf32> {autopar.name = "d", autopar.origin = @d}) -> (tensor<6x16xf32>, tensor<6x32xf32>) {
  %0 = autopar.grouped_dot %x, %u, %e {autopar.id = "up"} : (tensor<6x16xf32>, tensor<4x16x32xf32>, tensor<6xi64>) -> tensor<6x32xf32>
  %1 = autopar.unary relu %0 {autopar.id = "relu"} : tensor<6x32xf32>
  %2 = autopar.grouped_dot %1, %d, %e {autopar.id = "down"} : (tensor<6x32xf32>, tensor<4x32x16xf32>, tensor<6xi64>) -> tensor<6x16xf32>
  %3 = autopar.binary add %x, %2 {autopar.id = "residual"} : tensor<6x16xf32>
  return %3, %1 : tensor<6x16xf32>, tensor<6x32xf32>
}

// -----

// Rows that other numbers pick by are another mixture's; matrices that are fed are no experts.

// CHECK-LABEL: @others
// CHECK: %[[A:.*]] = autopar.grouped_dot {{.*}} in_parts {autopar.id = "a"}
// CHECK: %[[S:.*]] = autopar.reduce sum %[[A]] dims [0]
// CHECK: %[[R:.*]] = autopar.broadcast %[[S]] dims [1, 2]
// CHECK: autopar.grouped_dot %[[R]], %{{.*}} in_parts {autopar.id = "b"}
// CHECK: autopar.grouped_dot %arg0, %arg3, %arg1 {autopar.id = "c"} : (tensor<6x16xf32>
autopar.origin @u : tensor<4x16x16xf32>
func.func @others(%x: tensor<6x16xf32> {autopar.name = "x"}, %e: tensor<6xi64> {autopar.name = "e"}, %f: tensor<6xi64> {autopar.name = "f"}, %fed: tensor<3x16x16xf32> {autopar.name = "fed"}, %u: tensor<4x16x16xf32> {autopar.name = "u", autopar.origin = @u}) -> (tensor<6x16xf32>, tensor<6x16xf32>) {
  %0 = autopar.grouped_dot %x, %u, %e {autopar.id = "a"} : (tensor<6x16xf32>, tensor<4x16x16xf32>, tensor<6xi64>) -> tensor<6x16xf32>
  %1 = autopar.grouped_dot %0, %u, %f {autopar.id = "b"} : (tensor<6x16xf32>, tensor<4x16x16xf32>, tensor<6xi64>) -> tensor<6x16xf32>
  %2 = autopar.grouped_dot %x, %fed, %e {autopar.id = "c"} : (tensor<6x16xf32>, tensor<3x16x16xf32>, tensor<6xi64>) -> tensor<6x16xf32>
  return %1, %2 : tensor<6x16xf32>, tensor<6x16xf32>
}
