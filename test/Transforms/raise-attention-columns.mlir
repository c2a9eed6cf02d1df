// RUN: autopar-opt %s --autopar-raise-attention | FileCheck %s

// Columns that no row sees, whatever a mask says (what stands behind the end of a varying extent): the bias hides them, too.
// CHECK-LABEL: func.func @masked
// CHECK: %[[COLUMNS:.*]] = autopar.broadcast %arg3 dims [3] : tensor<16xi1> -> tensor<2x1x1x16xi1>
// CHECK: %[[BOTH:.*]] = autopar.select %[[COLUMNS]], %arg2, %{{.*}}
// CHECK: autopar.attention %arg0, %{{.*}}, %{{.*}} bias %[[BOTH]] scale 1.000000e+00
func.func @masked(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %mask: tensor<2x1x1x16xf32>, %there: tensor<16xi1>) -> tensor<2x4x16x8xf32> {
  %masks = autopar.broadcast %mask dims [0, 1, 2, 3] : tensor<2x1x1x16xf32> -> tensor<2x4x16x16xf32>
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %masked = autopar.binary add %s, %masks : tensor<2x4x16x16xf32>
  %infinity = autopar.constant dense<0xFF800000> : tensor<f32>
  %least = autopar.broadcast %infinity dims [] : tensor<f32> -> tensor<2x4x16x16xf32>
  %columns = autopar.broadcast %there dims [3] : tensor<16xi1> -> tensor<2x4x16x16xi1>
  %seen = autopar.select %columns, %masked, %least : (tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %p = autopar.softmax %seen dim 3 : tensor<2x4x16x16xf32>
  %y = autopar.dot_general %p, %k batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %y : tensor<2x4x16x8xf32>
}

// Alone they are a bias of one row.
// CHECK-LABEL: func.func @alone
// CHECK: autopar.attention %arg0, %{{.*}}, %{{.*}} bias %{{.*}} scale 1.000000e+00 {{.*}}tensor<1x1x1x16xf32>)
func.func @alone(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %there: tensor<16xi1>) -> tensor<2x4x16x8xf32> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %infinity = autopar.constant dense<0xFF800000> : tensor<f32>
  %least = autopar.broadcast %infinity dims [] : tensor<f32> -> tensor<2x4x16x16xf32>
  %columns = autopar.broadcast %there dims [3] : tensor<16xi1> -> tensor<2x4x16x16xi1>
  %seen = autopar.select %columns, %s, %least : (tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %p = autopar.softmax %seen dim 3 : tensor<2x4x16x16xf32>
  %y = autopar.dot_general %p, %k batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %y : tensor<2x4x16x8xf32>
}
