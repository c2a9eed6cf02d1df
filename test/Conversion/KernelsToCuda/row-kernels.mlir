// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: FileCheck %s --input-file %t.ptx --check-prefix=ONCE --implicit-check-not=ld.global
// RUN: autopar-translate --dump %t.bin | FileCheck %s --check-prefix=DUMP

// Softmax over rows of 2048: one pass over memory in accesses of 16 bytes, the row in registers, per reduction five
// shuffles and one barrier.

// DUMP: for cuda ptx8.0+sm_80+sm_80
// DUMP: section PTX class 0
// DUMP: launch @k0(%x, %{{.*}}) extent 512 grid [512, 128, 0]

// CHECK: .version 8.0
// CHECK: .target sm_80
// CHECK-NOT: .extern
// CHECK: .visible .entry k0(
// CHECK-NEXT: .param .u64
// CHECK-NEXT: .param .u64
// CHECK: .maxntid 128
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-COUNT-5: shfl.sync.bfly
// CHECK: bar.sync
// CHECK-COUNT-5: shfl.sync.bfly
// CHECK: bar.sync
// CHECK-NOT: bar.sync
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NOT: st.global
// ONCE-COUNT-4: ld.global.nc.v4.b32
func.func @main(%x: tensor<512x2048xf32> {autopar.name = "x"}) -> (tensor<512x2048xf32> {autopar.name = "y"}) {
  %y = autopar.softmax %x dim 1 : tensor<512x2048xf32>
  return %y : tensor<512x2048xf32>
}
