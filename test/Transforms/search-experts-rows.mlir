// RUN: autopar-opt %s --autopar-search="cluster=presets:cpux2 mesh=e=2 constraints='expert-axis=e'" | FileCheck %s

// Rows are brought to their experts once, before they are rearranged: both products read them.

// CHECK: \22gate\22: {{\[\[}}\22e\22],[],[],[]],
// CHECK-SAME: \22rows\22: {{\[\[}}\22e\22],[],[],[]]
// CHECK-SAME: \22slots\22: {{\[\[}}\22e\22],[],[],[]]
// CHECK-SAME: \22up\22: {{\[\[}}\22e\22],[],[],[]]
// CHECK-SAME: \22x\22: {{\[\[}}\22e\22],[],[]]
autopar.origin @g : tensor<4x16x16xf32>
autopar.origin @u : tensor<4x16x16xf32>
func.func @main(%x: tensor<4x8x16xf32> {autopar.name = "x"}, %g: tensor<4x16x16xf32> {autopar.name = "g", autopar.origin = @g}, %u: tensor<4x16x16xf32> {autopar.name = "u", autopar.origin = @u}) -> tensor<4x8x16xf32> {
  %0 = autopar.reshape %x {autopar.id = "slots"} : tensor<4x8x16xf32> -> tensor<4x4x2x16xf32>
  %1 = autopar.transpose %0 permutation [1, 0, 2, 3] {autopar.id = "turned"} : tensor<4x4x2x16xf32> -> tensor<4x4x2x16xf32>
  %2 = autopar.reshape %1 {autopar.id = "rows"} : tensor<4x4x2x16xf32> -> tensor<4x8x16xf32>
  %3 = autopar.dot_general %2, %g batch [0] x [0] contract [2] x [1] {autopar.id = "gate"} : (tensor<4x8x16xf32>, tensor<4x16x16xf32>) -> tensor<4x8x16xf32>
  %4 = autopar.dot_general %2, %u batch [0] x [0] contract [2] x [1] {autopar.id = "up"} : (tensor<4x8x16xf32>, tensor<4x16x16xf32>) -> tensor<4x8x16xf32>
  %5 = autopar.binary mul %3, %4 {autopar.id = "both"} : tensor<4x8x16xf32>
  return %5 : tensor<4x8x16xf32>
}
