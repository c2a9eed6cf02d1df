// RUN: autopar-opt %s --autopar-split-reductions | FileCheck %s
// RUN: autopar-opt %s --autopar-split-reductions --autopar-form-fusion-groups '--autopar-to-loops=target=cuda' | FileCheck %s --check-prefix=KERNEL

// Across memory: a block takes columns and 256 of their rows.
// CHECK-LABEL: func.func @columns
// CHECK: %[[D:.*]] = autopar.reshape %arg0 {autopar.id = "r/divided", autopar.phase = "backward"} : tensor<4x1024x64xf32> -> tensor<16x256x64xf32>
// CHECK: %[[P:.*]] = autopar.reduce sum %[[D]] dims [1] {autopar.id = "r/parts", autopar.phase = "backward"} : tensor<16x256x64xf32> -> tensor<16x64xf32>
// CHECK: %[[R:.*]] = autopar.reduce sum %[[P]] dims [0] {autopar.id = "r", autopar.phase = "backward"} : tensor<16x64xf32> -> tensor<64xf32>
// CHECK: return %[[R]]
// The parts are read across rows of 32 columns, although they begin in the middle of the outer dimension.
// KERNEL: func.func @columns_0({{.*}}) attributes {{.*}}autopar.grid = array<i64: 32, 512, 0>
func.func @columns(%x: tensor<4x1024x64xf32>) -> tensor<64xf32> {
  %r = autopar.reduce sum %x dims [0, 1] {autopar.id = "r", autopar.phase = "backward"} : tensor<4x1024x64xf32> -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// Everything: 29 * 1733 * 768 elements in 928 parts, of a multiple of 8 elements each.
// CHECK-LABEL: func.func @all
// CHECK: autopar.reduce sum {{.*}} dims [1] {{.*}} : tensor<928x41592xf32>
func.func @all(%x: tensor<50257x768xf32>) -> tensor<f32> {
  %r = autopar.reduce sum %x dims [0, 1] {autopar.id = "r"} : tensor<50257x768xf32> -> tensor<f32>
  return %r : tensor<f32>
}

// Kept dimensions between reduced ones, and narrow floats, whose parts are kept in f32.
// CHECK-LABEL: func.func @channels
// CHECK: %[[W:.*]] = autopar.cast %arg0 {autopar.id = "r/widened"} : tensor<64x3x1024xbf16> -> tensor<64x3x1024xf32>
// CHECK: %[[D:.*]] = autopar.reshape %[[W]] {{.*}} -> tensor<4x16x3x1024xf32>
// CHECK: %[[P:.*]] = autopar.reduce max %[[D]] dims [1, 3] {{.*}} : tensor<4x16x3x1024xf32> -> tensor<4x3xf32>
// CHECK: %[[R:.*]] = autopar.reduce max %[[P]] dims [0] {{.*}} : tensor<4x3xf32> -> tensor<3xf32>
// CHECK: %[[N:.*]] = autopar.cast %[[R]] {autopar.id = "r"} : tensor<3xf32> -> tensor<3xbf16>
// CHECK: return %[[N]]
func.func @channels(%x: tensor<64x3x1024xbf16>) -> tensor<3xbf16> {
  %r = autopar.reduce max %x dims [0, 2] {autopar.id = "r"} : tensor<64x3x1024xbf16> -> tensor<3xbf16>
  return %r : tensor<3xbf16>
}

// Rows enough, rows too short, an extent without divisors: they stay.
// CHECK-LABEL: func.func @stay
// CHECK-COUNT-3: autopar.reduce
// CHECK-NOT: autopar.reduce
// CHECK: return
func.func @stay(%x: tensor<1024x65536xf32>, %y: tensor<2x16384xf32>, %z: tensor<65537xf32>)
    -> (tensor<1024xf32>, tensor<2xf32>, tensor<f32>) {
  %a = autopar.reduce sum %x dims [1] : tensor<1024x65536xf32> -> tensor<1024xf32>
  %b = autopar.reduce sum %y dims [1] : tensor<2x16384xf32> -> tensor<2xf32>
  %c = autopar.reduce sum %z dims [0] : tensor<65537xf32> -> tensor<f32>
  return %a, %b, %c : tensor<1024xf32>, tensor<2xf32>, tensor<f32>
}
