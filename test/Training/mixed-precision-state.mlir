// RUN: autopar-opt %s --autopar-mixed-precision="precision=bf16 inference=true" | FileCheck %s

// State that products read, and that takes what products yield, is kept in bf16, be it written in place or moved on: as
// f32 all of it would be rounded and widened in every step. The sum of all tokens is read in f32, and stays what it is.
// CHECK: func.func @main({{.*}}, %[[CACHE:.*]]: tensor<2x8x4xbf16> {autopar.donated, autopar.name = "cache"}
// CHECK-SAME: %[[WINDOW:.*]]: tensor<2x8x4xbf16> {autopar.donated, autopar.name = "window"}
// CHECK-SAME: %{{.*}}: tensor<2x1x4xf32> {autopar.donated, autopar.name = "sum"}
// CHECK-SAME: tensor<2x8x4xbf16> {autopar.name = "cache"}, tensor<2x8x4xbf16> {autopar.name = "window"}, tensor<2x1x4xf32> {autopar.name = "sum"})
// CHECK-NOT: tensor<2x8x4xf32>
// CHECK: autopar.scatter_elements assign %[[CACHE]], {{.*}} -> tensor<2x8x4xbf16>
// CHECK-NOT: tensor<2x8x4xf32>
// CHECK: return
func.func @main(%x: tensor<2x1x4xf32> {autopar.name = "x"}, %w: tensor<4x4xf32> {autopar.name = "w"},
                %at: tensor<2x1x4xi64> {autopar.name = "at"},
                %cache: tensor<2x8x4xf32> {autopar.donated, autopar.name = "cache"},
                %window: tensor<2x8x4xf32> {autopar.donated, autopar.name = "window"},
                %sum: tensor<2x1x4xf32> {autopar.donated, autopar.name = "sum"})
    -> (tensor<2x1x8xf32> {autopar.name = "scores"}, tensor<2x1x8xf32> {autopar.name = "more"}, tensor<2x8x4xf32> {autopar.name = "cache"},
        tensor<2x8x4xf32> {autopar.name = "window"}, tensor<2x1x4xf32> {autopar.name = "sum"}) {
  %key = autopar.dot_general %x, %w contract [2] x [0] {autopar.id = "key"} : (tensor<2x1x4xf32>, tensor<4x4xf32>) -> tensor<2x1x4xf32>
  %written = autopar.scatter_elements assign %cache, %at, %key dim 1 {autopar.id = "written"} : (tensor<2x8x4xf32>, tensor<2x1x4xi64>, tensor<2x1x4xf32>) -> tensor<2x8x4xf32>
  %kept = autopar.slice %window starts [0, 1, 0] steps [1, 1, 1] {autopar.id = "kept"} : tensor<2x8x4xf32> -> tensor<2x7x4xf32>
  %next = autopar.concat %kept, %key dim 1 {autopar.id = "next"} : (tensor<2x7x4xf32>, tensor<2x1x4xf32>) -> tensor<2x8x4xf32>
  %scores = autopar.dot_general %x, %written batch [0] x [0] contract [2] x [2] {autopar.id = "scores"} : (tensor<2x1x4xf32>, tensor<2x8x4xf32>) -> tensor<2x1x8xf32>
  %more = autopar.dot_general %x, %next batch [0] x [0] contract [2] x [2] {autopar.id = "more"} : (tensor<2x1x4xf32>, tensor<2x8x4xf32>) -> tensor<2x1x8xf32>
  %all = autopar.binary add %sum, %key {autopar.id = "all"} : tensor<2x1x4xf32>
  return %scores, %more, %written, %next, %all : tensor<2x1x8xf32>, tensor<2x1x8xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x1x4xf32>
}
