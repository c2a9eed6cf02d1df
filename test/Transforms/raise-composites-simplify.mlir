// RUN: autopar-opt %s --autopar-raise-composites --split-input-file | FileCheck %s

// Powers by small numbers; a division is a product where the reciprocal is exact.
// CHECK-LABEL: func.func @powers
// CHECK: %[[S:.*]] = autopar.binary mul %[[X:.*]], %[[X]] {autopar.id = "p3/square"}
// CHECK: autopar.binary mul %[[S]], %[[X]] {autopar.id = "p3"}
// CHECK: autopar.unary sqrt %[[X]] {autopar.id = "root"}
// CHECK-LABEL: func.func @divisions
// CHECK-DAG: %[[E:.*]] = autopar.constant dense<1.250000e-01> : tensor<f32>
// CHECK-DAG: %[[ES:.*]] = autopar.broadcast %[[E]] dims [] {autopar.id = "d8/inverse"} : tensor<f32> -> tensor<8xf32>
// CHECK: autopar.binary mul %{{.*}}, %[[ES]] {autopar.id = "d8"}
// CHECK: autopar.binary div %{{.*}} {autopar.id = "d3"}
func.func @powers(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %three = autopar.constant dense<3.0> : tensor<8xf32>
  %half = autopar.constant dense<0.5> : tensor<8xf32>
  %a = autopar.binary pow %x, %three {autopar.id = "p3"} : tensor<8xf32>
  %b = autopar.binary pow %x, %half {autopar.id = "root"} : tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
func.func @divisions(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %eight = autopar.constant dense<8.0> : tensor<8xf32>
  %three = autopar.constant dense<3.0> : tensor<8xf32>
  %one = autopar.constant dense<1.0> : tensor<8xf32>
  %a = autopar.binary div %x, %eight {autopar.id = "d8"} : tensor<8xf32>
  %b = autopar.binary div %x, %three {autopar.id = "d3"} : tensor<8xf32>
  %c = autopar.binary mul %x, %one : tensor<8xf32>
  return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// A cast back undoes a widening, not a narrowing.
// CHECK-LABEL: func.func @casts(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8xf16>, %[[F:[a-z0-9]+]]: tensor<8xf32>)
// CHECK: %[[N:.*]] = autopar.cast %[[F]]
// CHECK: %[[W:.*]] = autopar.cast %[[N]]
// CHECK: return %[[X]], %[[W]]
func.func @casts(%x: tensor<8xf16>, %f: tensor<8xf32>) -> (tensor<8xf16>, tensor<8xf32>) {
  %a = autopar.cast %x : tensor<8xf16> -> tensor<8xf32>
  %b = autopar.cast %a : tensor<8xf32> -> tensor<8xf16>
  %c = autopar.cast %f : tensor<8xf32> -> tensor<8xf16>
  %d = autopar.cast %c : tensor<8xf16> -> tensor<8xf32>
  return %b, %d : tensor<8xf16>, tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @movement(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x6x1xf32>, %[[B:[a-z0-9]+]]: tensor<6xf32>)
// CHECK-DAG: %[[R:.*]] = autopar.reshape %[[X]] {autopar.id = "r"} : tensor<4x6x1xf32> -> tensor<2x2x6xf32>
// CHECK-DAG: %[[W:.*]] = autopar.broadcast %[[B]] dims [2] {autopar.id = "w"} : tensor<6xf32> -> tensor<4x5x6xf32>
// CHECK: return %[[R]], %[[W]], %[[X]]
func.func @movement(%x: tensor<4x6x1xf32>, %b: tensor<6xf32>) -> (tensor<2x2x6xf32>, tensor<4x5x6xf32>, tensor<4x6x1xf32>) {
  %0 = autopar.reshape %x : tensor<4x6x1xf32> -> tensor<24xf32>
  %1 = autopar.reshape %0 {autopar.id = "r"} : tensor<24xf32> -> tensor<2x2x6xf32>
  %2 = autopar.reshape %b : tensor<6xf32> -> tensor<1x1x6xf32>
  %3 = autopar.broadcast %2 dims [0, 1, 2] : tensor<1x1x6xf32> -> tensor<1x5x6xf32>
  %4 = autopar.broadcast %3 dims [0, 1, 2] {autopar.id = "w"} : tensor<1x5x6xf32> -> tensor<4x5x6xf32>
  %5 = autopar.transpose %x permutation [2, 0, 1] : tensor<4x6x1xf32> -> tensor<1x4x6xf32>
  %6 = autopar.transpose %5 permutation [1, 2, 0] : tensor<1x4x6xf32> -> tensor<4x6x1xf32>
  %7 = autopar.slice %6 starts [0, 0, 0] steps [1, 1, 1] : tensor<4x6x1xf32> -> tensor<4x2x1xf32>
  %8 = autopar.slice %6 starts [0, 2, 0] steps [1, 1, 1] : tensor<4x6x1xf32> -> tensor<4x4x1xf32>
  %9 = autopar.concat %7, %8 dim 1 : (tensor<4x2x1xf32>, tensor<4x4x1xf32>) -> tensor<4x6x1xf32>
  return %1, %4, %9 : tensor<2x2x6xf32>, tensor<4x5x6xf32>, tensor<4x6x1xf32>
}

// -----

// Slices of slices, and the slice that is an operand of the concatenation.
// CHECK-LABEL: func.func @slices(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<10xf32>, %[[Y:[a-z0-9]+]]: tensor<3xf32>)
// CHECK-NEXT: %[[S:.*]] = autopar.slice %[[X]] starts [3] steps [4] : tensor<10xf32> -> tensor<2xf32>
// CHECK-NEXT: return %[[S]], %[[Y]]
func.func @slices(%x: tensor<10xf32>, %y: tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) {
  %0 = autopar.slice %x starts [1] steps [2] : tensor<10xf32> -> tensor<5xf32>
  %1 = autopar.slice %0 starts [1] steps [2] : tensor<5xf32> -> tensor<2xf32>
  %2 = autopar.concat %0, %y dim 0 : (tensor<5xf32>, tensor<3xf32>) -> tensor<8xf32>
  %3 = autopar.slice %2 starts [5] steps [1] : tensor<8xf32> -> tensor<3xf32>
  return %1, %3 : tensor<2xf32>, tensor<3xf32>
}

// -----

// What takes of one operand of a concatenation only, with steps, and through dimensions of extent 1.
// CHECK-LABEL: func.func @parts_of_concatenations(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x6xf32>, %[[Y:[a-z0-9]+]]: tensor<3x6xf32>,
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<1x1x2x8xf32>, %[[B:[a-z0-9]+]]: tensor<1x1x2x8xf32>)
// CHECK-DAG: %[[S:.*]] = autopar.slice %[[Y]] starts [0, 1] steps [2, 3] {autopar.id = "odd"} : tensor<3x6xf32> -> tensor<2x2xf32>
// CHECK-DAG: %[[C:.*]] = autopar.concat %[[X]], %[[Y]] dim 0
// CHECK-DAG: %[[T:.*]] = autopar.slice %[[C]] starts [1, 0] steps [1, 1] {autopar.id = "across"}
// CHECK-DAG: %[[L:.*]] = autopar.reshape %[[B]] {autopar.id = "last"} : tensor<1x1x2x8xf32> -> tensor<1x2x8xf32>
// CHECK-DAG: %[[P:.*]] = autopar.slice %[[A]] starts [0, 0, 1, 4] steps [1, 1, 1, 2] {autopar.id = "some/part"} : tensor<1x1x2x8xf32> -> tensor<1x1x1x2xf32>
// CHECK-DAG: %[[Q:.*]] = autopar.reshape %[[P]] {autopar.id = "some"} : tensor<1x1x1x2xf32> -> tensor<1x1x2xf32>
// CHECK: return %[[S]], %[[T]], %[[L]], %[[Q]]
func.func @parts_of_concatenations(%x: tensor<2x6xf32>, %y: tensor<3x6xf32>, %a: tensor<1x1x2x8xf32>,
                                   %b: tensor<1x1x2x8xf32>)
    -> (tensor<2x2xf32>, tensor<2x6xf32>, tensor<1x2x8xf32>, tensor<1x1x2xf32>) {
  %0 = autopar.concat %x, %y dim 0 : (tensor<2x6xf32>, tensor<3x6xf32>) -> tensor<5x6xf32>
  %1 = autopar.slice %0 starts [2, 1] steps [2, 3] {autopar.id = "odd"} : tensor<5x6xf32> -> tensor<2x2xf32>
  %2 = autopar.slice %0 starts [1, 0] steps [1, 1] {autopar.id = "across"} : tensor<5x6xf32> -> tensor<2x6xf32>
  %3 = autopar.concat %a, %b dim 0 : (tensor<1x1x2x8xf32>, tensor<1x1x2x8xf32>) -> tensor<2x1x2x8xf32>
  %4 = autopar.reshape %3 : tensor<2x1x2x8xf32> -> tensor<2x2x8xf32>
  %5 = autopar.slice %4 starts [1, 0, 0] steps [1, 1, 1] {autopar.id = "last"} : tensor<2x2x8xf32> -> tensor<1x2x8xf32>
  %6 = autopar.slice %4 starts [0, 1, 4] steps [1, 1, 2] {autopar.id = "some"} : tensor<2x2x8xf32> -> tensor<1x1x2xf32>
  return %1, %2, %5, %6 : tensor<2x2xf32>, tensor<2x6xf32>, tensor<1x2x8xf32>, tensor<1x1x2xf32>
}

// -----

// Two layers compute one mask, each under its own names; the broadcasts stay with their users.
// CHECK-LABEL: func.func @shared(
// CHECK-NEXT: %[[A:.*]] = autopar.broadcast
// CHECK-NEXT: %[[M:.*]] = autopar.unary neg %[[A]] {autopar.id = "layer.0/Neg"}
// CHECK-NEXT: %[[E:.*]] = autopar.unary exp %[[M]] {autopar.id = "layer.0/Exp"}
// CHECK-NEXT: return %[[E]], %[[E]]
func.func @shared(%x: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = autopar.broadcast %x dims [1] {autopar.id = "layer.0/Expand"} : tensor<8xf32> -> tensor<4x8xf32>
  %b = autopar.unary neg %a {autopar.id = "layer.0/Neg"} : tensor<4x8xf32>
  %c = autopar.unary exp %b {autopar.id = "layer.0/Exp"} : tensor<4x8xf32>
  %d = autopar.broadcast %x dims [1] {autopar.id = "layer.1/Expand"} : tensor<8xf32> -> tensor<4x8xf32>
  %e = autopar.unary neg %d {autopar.id = "layer.1/Neg"} : tensor<4x8xf32>
  %f = autopar.unary exp %e {autopar.id = "layer.1/Exp"} : tensor<4x8xf32>
  return %c, %f : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// The gradient of what slices took apart: each part at its place.
// CHECK-LABEL: func.func @parts(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<4x1x8xbf16>, %[[B:[a-z0-9]+]]: tensor<4x2x8xbf16>)
// CHECK-NEXT: %[[ALL:.*]] = autopar.concat %[[B]], %[[A]] dim 1 {autopar.id = "sum/parts", autopar.phase = "backward"}
// CHECK-NEXT: %[[WIDE:.*]] = autopar.cast %[[ALL]] {autopar.id = "sum", autopar.phase = "backward"}
// CHECK-NEXT: return %[[WIDE]]
func.func @parts(%a: tensor<4x1x8xbf16>, %b: tensor<4x2x8xbf16>) -> tensor<4x3x8xf32> {
  %zero = autopar.constant dense<0.000000e+00> : tensor<bf16>
  %0 = autopar.pad %a, %zero low [0, 2, 0] : (tensor<4x1x8xbf16>, tensor<bf16>) -> tensor<4x3x8xbf16>
  %1 = autopar.cast %0 : tensor<4x3x8xbf16> -> tensor<4x3x8xf32>
  %2 = autopar.pad %b, %zero low [0, 0, 0] : (tensor<4x2x8xbf16>, tensor<bf16>) -> tensor<4x3x8xbf16>
  %3 = autopar.cast %2 : tensor<4x3x8xbf16> -> tensor<4x3x8xf32>
  %4 = autopar.binary add %1, %3 {autopar.id = "sum", autopar.phase = "backward"} : tensor<4x3x8xf32>
  return %4 : tensor<4x3x8xf32>
}

// -----

// Parts that overlap, or leave a gap, or are not zero outside, are added.
// CHECK-LABEL: func.func @overlap(
// CHECK-COUNT-3: autopar.binary add
func.func @overlap(%a: tensor<2xf32>, %b: tensor<3xf32>) -> (tensor<4xf32>, tensor<6xf32>, tensor<5xf32>) {
  %zero = autopar.constant dense<0.000000e+00> : tensor<f32>
  %one = autopar.constant dense<1.000000e+00> : tensor<f32>
  %0 = autopar.pad %a, %zero low [0] : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = autopar.pad %b, %zero low [1] : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = autopar.binary add %0, %1 : tensor<4xf32>
  %3 = autopar.pad %a, %zero low [0] : (tensor<2xf32>, tensor<f32>) -> tensor<6xf32>
  %4 = autopar.pad %b, %zero low [3] : (tensor<3xf32>, tensor<f32>) -> tensor<6xf32>
  %5 = autopar.binary add %3, %4 : tensor<6xf32>
  %6 = autopar.pad %a, %zero low [0] : (tensor<2xf32>, tensor<f32>) -> tensor<5xf32>
  %7 = autopar.pad %b, %one low [2] : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>
  %8 = autopar.binary add %6, %7 : tensor<5xf32>
  return %2, %5, %8 : tensor<4xf32>, tensor<6xf32>, tensor<5xf32>
}

// -----

// Rows that are written along an inner dimension, brought to the front and back, are written where they lie.
// CHECK-LABEL: func.func @written(
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: tensor<2x3x8x4xf32>, %[[ROWS:[a-z0-9]+]]: tensor<2x3x1x4xf32>, %[[AT:[a-z0-9]+]]: tensor<1x1xi64>)
// CHECK: %[[ALL:.*]] = autopar.broadcast %[[AT]] dims [2, 3] {{.*}} : tensor<1x1xi64> -> tensor<2x3x1x1xi64>
// CHECK: autopar.scatter assign %[[CACHE]], %[[ALL]], %{{.*}} batch 2 {autopar.id = "back"}
// CHECK-NOT: autopar.transpose %[[CACHE]]
func.func @written(%cache: tensor<2x3x8x4xf32>, %rows: tensor<2x3x1x4xf32>, %at: tensor<1x1xi64>) -> tensor<2x3x8x4xf32> {
  %0 = autopar.transpose %cache permutation [2, 1, 0, 3] {autopar.id = "front"} : tensor<2x3x8x4xf32> -> tensor<8x3x2x4xf32>
  %1 = autopar.transpose %rows permutation [2, 1, 0, 3] {autopar.id = "rows"} : tensor<2x3x1x4xf32> -> tensor<1x3x2x4xf32>
  %2 = autopar.scatter assign %0, %at, %1 {autopar.id = "scatter"} : (tensor<8x3x2x4xf32>, tensor<1x1xi64>, tensor<1x3x2x4xf32>) -> tensor<8x3x2x4xf32>
  %3 = autopar.transpose %2 permutation [2, 1, 0, 3] {autopar.id = "back"} : tensor<8x3x2x4xf32> -> tensor<2x3x8x4xf32>
  return %3 : tensor<2x3x8x4xf32>
}
