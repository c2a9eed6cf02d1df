// RUN: autopar-opt %s --autopar-expand-grouped-products="target=cuda" --autopar-tile-grouped-products | FileCheck %s

// One order for both; 300 rows of 4 groups, and of none, are at most 7 tiles.

// CHECK-LABEL: @both
// CHECK: %[[ONES:.*]] = autopar.cast {{.*}} {autopar.id = "y/grouped/tiles/ones"} : tensor<5x300xi1> -> tensor<5x300xi32>
// CHECK: %[[BEFORE:.*]] = autopar.cumulative sum %[[ONES]] dim 1 exclusive {autopar.id = "y/grouped/tiles/before"}
// CHECK: %[[FIRST:.*]] = autopar.cumulative sum {{.*}} dim 0 exclusive {autopar.id = "y/grouped/tiles/first"} : tensor<5xi32>
// CHECK: autopar.gather %[[FIRST]], {{.*}} {autopar.id = "y/grouped/tiles/first.of.row"}
// CHECK: autopar.gather %[[BEFORE]], {{.*}} {autopar.id = "y/grouped/tiles/before.row"}
// CHECK: %[[ORDER:.*]] = autopar.scatter assign {{.*}} -> tensor<896xi32>
// CHECK: %[[GROUP:.*]] = autopar.select {{.*}} {autopar.id = "y/grouped/tiles/group.of.tile"} : {{.*}} -> tensor<7xi32>
// CHECK-NOT: autopar.cumulative
// CHECK: autopar.grouped_dot_tiles %arg0, %arg1, %[[ORDER]], %[[GROUP]] transposed among 8 {autopar.id = "y"}
// CHECK: autopar.grouped_dot_rhs_grad_tiles %arg0, {{.*}}, %[[ORDER]], %[[FIRST]] {autopar.id = "dw"}
func.func @both(%x: tensor<3x100x64xbf16>, %w: tensor<4x32x64xbf16>, %g: tensor<3x100xi64>) -> (tensor<3x100x32xbf16>, tensor<4x64x32xf32>) {
  %y = autopar.grouped_dot %x, %w, %g transposed among 8 {autopar.id = "y"} : (tensor<3x100x64xbf16>, tensor<4x32x64xbf16>, tensor<3x100xi64>) -> tensor<3x100x32xbf16>
  %dw = autopar.grouped_dot_rhs_grad %x, %y, %g {autopar.id = "dw"} : (tensor<3x100x64xbf16>, tensor<3x100x32xbf16>, tensor<3x100xi64>) -> tensor<4x64x32xf32>
  return %y, %dw : tensor<3x100x32xbf16>, tensor<4x64x32xf32>
}

// Another phase has an order of its own, so that nothing waits for it.

// CHECK-LABEL: @phases
// CHECK-COUNT-2: autopar.scatter assign
func.func @phases(%x: tensor<300x64xbf16>, %w: tensor<4x64x64xbf16>, %g: tensor<300xi32>) -> tensor<300x64xbf16> {
  %y = autopar.grouped_dot %x, %w, %g {autopar.phase = "forward"} : (tensor<300x64xbf16>, tensor<4x64x64xbf16>, tensor<300xi32>) -> tensor<300x64xbf16>
  %z = autopar.grouped_dot %y, %w, %g {autopar.phase = "backward"} : (tensor<300x64xbf16>, tensor<4x64x64xbf16>, tensor<300xi32>) -> tensor<300x64xbf16>
  return %z : tensor<300x64xbf16>
}

// What kernels of tiles do not read or write: f32, rows of an odd length, two results at once in rows of an odd length.

// CHECK-LABEL: @others
// CHECK-NOT: _tiles
// CHECK: return
func.func @others(%x: tensor<300x64xf32>, %w: tensor<2x64x64xf32>, %a: tensor<300x60xf16>, %b: tensor<2x60x64xf16>, %c: tensor<300x64xf16>, %d: tensor<2x3x64xf16>, %g: tensor<300xi64>) -> (tensor<300x64xf32>, tensor<300x64xf16>, tensor<300x3xf16>) {
  %y = autopar.grouped_dot %x, %w, %g : (tensor<300x64xf32>, tensor<2x64x64xf32>, tensor<300xi64>) -> tensor<300x64xf32>
  %z = autopar.grouped_dot %a, %b, %g : (tensor<300x60xf16>, tensor<2x60x64xf16>, tensor<300xi64>) -> tensor<300x64xf16>
  %o = autopar.grouped_dot %c, %d, %g transposed : (tensor<300x64xf16>, tensor<2x3x64xf16>, tensor<300xi64>) -> tensor<300x3xf16>
  return %y, %z, %o : tensor<300x64xf32>, tensor<300x64xf16>, tensor<300x3xf16>
}
