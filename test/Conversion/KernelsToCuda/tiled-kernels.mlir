// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// A transpose goes through shared memory, with a gap after every line and one barrier.

// CHECK: .visible .entry k0(
// CHECK: .maxntid 256
// CHECK: .shared .align 16 .b8 k0_shared_0[4224]
// CHECK-COUNT-4: st.shared
// CHECK: bar.sync
// CHECK-COUNT-4: st.global
// CHECK-NOT: bar.sync
func.func @main(%x: tensor<512x1024xf32> {autopar.name = "x"}) -> (tensor<1024x512xf32> {autopar.name = "y"}) {
  %y = autopar.transpose %x permutation [1, 0] : tensor<512x1024xf32> -> tensor<1024x512xf32>
  %z = autopar.unary neg %y : tensor<1024x512xf32>
  return %z : tensor<1024x512xf32>
}
