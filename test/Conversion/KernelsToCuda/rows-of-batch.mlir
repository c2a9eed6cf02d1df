// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// Four heads share keys and values. A team of lanes has four keys for all of them: four vectors of keys and four of queries
// are read for 128 products.
// CHECK: .visible .entry k0(
// CHECK-NOT: ld.global
// CHECK-COUNT-8: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK-COUNT-3: shfl.sync
// CHECK: ret;
func.func @main(%q: tensor<8x8x4x64xbf16> {autopar.name = "q"}, %k: tensor<8x8x1024x64xbf16> {autopar.name = "k"}, %p: tensor<8x8x4x1024xbf16> {autopar.name = "p"}) -> (tensor<8x8x4x1024xbf16> {autopar.name = "s"}, tensor<8x8x4x64xbf16> {autopar.name = "y"}) {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] {autopar.id = "s"} : (tensor<8x8x4x64xbf16>, tensor<8x8x1024x64xbf16>) -> tensor<8x8x4x1024xbf16>
  // Values are read once as well, a line of a matrix after the other, four bytes a thread: one number of each row for two of
  // its sums.
  // CHECK: .visible .entry k1(
  // CHECK: ld.global.nc.v2.b16
  // CHECK-NOT: ld.global.nc.v2.b16
  // CHECK-COUNT-4: ld.global.nc.b16
  // CHECK: ret;
  %y = autopar.dot_general %p, %k batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<8x8x4x1024xbf16>, tensor<8x8x1024x64xbf16>) -> tensor<8x8x4x64xbf16>
  return %s, %y : tensor<8x8x4x1024xbf16>, tensor<8x8x4x64xbf16>
}
