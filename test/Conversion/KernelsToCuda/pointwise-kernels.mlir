// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// Eight neighbouring bf16 per thread: one access of 16 bytes for each operand and the result.

// CHECK: .visible .entry k0(
// CHECK-COUNT-2: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: st.global.v4.b32
// CHECK-NOT: st.global
func.func @main(%x: tensor<512x1024xbf16> {autopar.name = "x"}, %b: tensor<512x1024xbf16> {autopar.name = "b"})
    -> (tensor<512x1024xbf16> {autopar.name = "y"}) {
  %y = autopar.binary add %x, %b : tensor<512x1024xbf16>
  return %y : tensor<512x1024xbf16>
}
