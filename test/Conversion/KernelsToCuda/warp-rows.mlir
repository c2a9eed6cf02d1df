// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: autopar-translate --dump %t.bin | FileCheck %s --check-prefix=LAUNCH

// A row of up to 1,024 elements is a warp's, where there are many: nothing is shared, and no thread waits for another warp.

// LAUNCH: grid [150, 128, 0]

// CHECK: .visible .entry k0(
// CHECK-NOT: .shared
// CHECK: .maxntid 128
// CHECK-COUNT-3: ld.global.nc.v4
// CHECK-NOT: bar.sync
// CHECK-COUNT-5: shfl.sync.bfly
// CHECK-NOT: bar.sync
// CHECK: ret;
func.func @main(%x: tensor<600x768xbf16> {autopar.name = "x"}) -> (tensor<600x768xbf16> {autopar.name = "y"}) {
  %y = autopar.normalize %x dims [1] epsilon 1.0e-05 {autopar.id = "norm"} : tensor<600x768xbf16>
  return %y : tensor<600x768xbf16>
}
