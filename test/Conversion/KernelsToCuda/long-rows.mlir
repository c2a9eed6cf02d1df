// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: autopar-translate --dump %t.bin | FileCheck %s --check-prefix=LAUNCH

// A row that does not fit the registers of its block is read once: behind the first barrier it comes from dynamic
// shared memory, 16 bytes at a time. The last round is the only one that asks whether its elements exist.

// LAUNCH: grid [600, 512, 80080]

// CHECK: .extern .shared .align 16 .b8 k0_shared_0[];
// CHECK: .visible .entry k0(
// CHECK: ld.global.nc.v4
// CHECK: st.shared.v4
// CHECK: bar.sync
// CHECK-NOT: ld.global
// CHECK: ld.shared.v4
// CHECK-NOT: ld.global
// CHECK: st.global.v4
// CHECK-NOT: ld.global
// CHECK: ret;
func.func @main(%x: tensor<600x40040xbf16> {autopar.name = "x"}) -> (tensor<600x40040xbf16> {autopar.name = "y"}) {
  %y = autopar.softmax %x dim 1 {autopar.id = "softmax"} : tensor<600x40040xbf16>
  return %y : tensor<600x40040xbf16>
}
