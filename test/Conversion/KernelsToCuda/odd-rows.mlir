// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: autopar-translate --dump %t.bin | FileCheck %s --check-prefix=LAUNCH

// Rows of odd length have no vectors: a thread has eight elements under way, before it stores one. Positions have 32
// bits although the elements are more than 2^30.

// LAUNCH: grid [804112, 256, 0]

// CHECK: .visible .entry k0(
// CHECK-NOT: rem.{{[su]}}64
// CHECK-NOT: st.global
// CHECK-COUNT-8: ld.global.nc.b16
// CHECK-NOT: ld.global
// CHECK-COUNT-8: st.global.b16
// CHECK-NOT: st.global
// CHECK: ret;
func.func @main(%x: tensor<32768x50264xbf16> {autopar.name = "x"}) -> (tensor<32768x50257xbf16> {autopar.name = "y"}) {
  %s = autopar.slice %x starts [0, 0] steps [1, 1] : tensor<32768x50264xbf16> -> tensor<32768x50257xbf16>
  %y = autopar.unary neg %s : tensor<32768x50257xbf16>
  return %y : tensor<32768x50257xbf16>
}
