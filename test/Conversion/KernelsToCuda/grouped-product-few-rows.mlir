// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --dump %t.bin | FileCheck %s

// Twelve rows meet twelve of 16 matrices at most, of 131,072 bytes each: what a step is thought to read.
// CHECK: id "y" {{.*}} bytes 1591344
func.func @main(%x: tensor<12x256xbf16> {autopar.name = "x"}, %w: tensor<16x256x256xbf16> {autopar.name = "w"}, %g: tensor<12xi64> {autopar.name = "g"})
    -> (tensor<12x256xbf16> {autopar.name = "y"}) {
  %y = autopar.grouped_dot %x, %w, %g {autopar.id = "y"} : (tensor<12x256xbf16>, tensor<16x256x256xbf16>, tensor<12xi64>) -> tensor<12x256xbf16>
  return %y : tensor<12x256xbf16>
}
