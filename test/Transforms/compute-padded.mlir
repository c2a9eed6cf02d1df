// RUN: autopar-opt %s --autopar-compute-padded --split-input-file | FileCheck %s

// What is computed of padded logits, and padded for a product, is computed padded; sums and maxima see
// their identity in the padding.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x1024xbf16>
// CHECK-NOT: autopar.slice
// CHECK: %[[WIDE:.*]] = autopar.cast %[[X]] {{.*}} -> tensor<16x1024xf32>
// CHECK: %[[COLUMN:.*]] = autopar.iota dim 1 {{.*}} : tensor<16x1024xi32>
// CHECK: %[[END:.*]] = autopar.constant {{.*}}dense<1021> : tensor<i32>
// CHECK: %[[ENDS:.*]] = autopar.broadcast %[[END]] dims []
// CHECK: %[[INSIDE:.*]] = autopar.compare lt %[[COLUMN]], %[[ENDS]]
// CHECK: %[[LEAST:.*]] = autopar.constant {{.*}}dense<0xFF800000> : tensor<f32>
// CHECK: %[[FILL:.*]] = autopar.broadcast %[[LEAST]] dims []
// CHECK: %[[MASKED:.*]] = autopar.select %[[INSIDE]], %[[WIDE]], %[[FILL]] {autopar.id = "top/masked"}
// CHECK: %[[TOP:.*]] = autopar.reduce max %[[MASKED]] dims [1] {autopar.id = "top"} : tensor<16x1024xf32> -> tensor<16xf32>
// CHECK: %[[TOPS:.*]] = autopar.broadcast %[[TOP]] dims [0] {{.*}} tensor<16x1024xf32>
// CHECK: %[[SHIFTED:.*]] = autopar.binary sub %[[WIDE]], %[[TOPS]] {autopar.id = "shifted"} : tensor<16x1024xf32>
// CHECK: %[[G:.*]] = autopar.cast %[[SHIFTED]] {{.*}} -> tensor<16x1024xbf16>
// CHECK: %[[P:.*]] = autopar.select %{{.*}}, %[[G]], %{{.*}} {autopar.id = "p/masked", autopar.phase = "backward"}
// CHECK: return %[[P]]
func.func @loss(%x: tensor<16x1024xbf16>) -> tensor<16x1024xbf16> {
  %zero = autopar.constant dense<0.0> : tensor<bf16>
  %0 = autopar.slice %x starts [0, 0] steps [1, 1] : tensor<16x1024xbf16> -> tensor<16x1021xbf16>
  %1 = autopar.cast %0 {autopar.id = "cast"} : tensor<16x1021xbf16> -> tensor<16x1021xf32>
  %2 = autopar.reduce max %1 dims [1] {autopar.id = "top"} : tensor<16x1021xf32> -> tensor<16xf32>
  %3 = autopar.broadcast %2 dims [0] : tensor<16xf32> -> tensor<16x1021xf32>
  %4 = autopar.binary sub %1, %3 {autopar.id = "shifted"} : tensor<16x1021xf32>
  %5 = autopar.cast %4 : tensor<16x1021xf32> -> tensor<16x1021xbf16>
  %6 = autopar.pad %5, %zero low [0, 0] {autopar.id = "p", autopar.phase = "backward"} : (tensor<16x1021xbf16>, tensor<bf16>) -> tensor<16x1024xbf16>
  return %6 : tensor<16x1024xbf16>
}

// -----

// Somebody reads an unpadded value; an argument has no padding; another reduction mixes columns.
// CHECK-LABEL: func.func @stay
// CHECK-COUNT-3: autopar.pad
// CHECK-NOT: autopar.iota
func.func @stay(%x: tensor<16x1024xbf16>, %y: tensor<16x1021xbf16>) -> (tensor<16x1021xbf16>, tensor<16x1024xbf16>, tensor<16x1024xbf16>, tensor<1021xbf16>, tensor<16x1024xbf16>) {
  %zero = autopar.constant dense<0.0> : tensor<bf16>
  %0 = autopar.slice %x starts [0, 0] steps [1, 1] : tensor<16x1024xbf16> -> tensor<16x1021xbf16>
  %1 = autopar.unary exp %0 : tensor<16x1021xbf16>
  %2 = autopar.pad %1, %zero low [0, 0] : (tensor<16x1021xbf16>, tensor<bf16>) -> tensor<16x1024xbf16>
  %3 = autopar.unary exp %y : tensor<16x1021xbf16>
  %4 = autopar.pad %3, %zero low [0, 0] : (tensor<16x1021xbf16>, tensor<bf16>) -> tensor<16x1024xbf16>
  %5 = autopar.slice %x starts [0, 0] steps [1, 1] : tensor<16x1024xbf16> -> tensor<16x1021xbf16>
  %6 = autopar.unary neg %5 : tensor<16x1021xbf16>
  %7 = autopar.reduce sum %6 dims [0] : tensor<16x1021xbf16> -> tensor<1021xbf16>
  %8 = autopar.pad %6, %zero low [0, 0] : (tensor<16x1021xbf16>, tensor<bf16>) -> tensor<16x1024xbf16>
  return %1, %2, %4, %7, %8 : tensor<16x1021xbf16>, tensor<16x1024xbf16>, tensor<16x1024xbf16>, tensor<1021xbf16>, tensor<16x1024xbf16>
}
