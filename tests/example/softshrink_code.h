// An activation as code of one's own: copysign(max(|x| - lambda, 0), x).
#pragma once

// A program of the grid has 256 elements; on a GPU each thread has one of them.
inline constexpr char kSoftshrinkIr[] = R"(
define void @softshrink(ptr noalias %x, ptr noalias %out, float %lambda, i32 %n, i32 %program, i32 %y, i32 %z) {
begin:
  %first = mul i32 %program, 256
  %after = add i32 %first, 256
  %end = call i32 @llvm.smin.i32(i32 %after, i32 %n)
  br label %head
head:
  %i = phi i32 [ %first, %begin ], [ %next, %body ]
  %more = icmp slt i32 %i, %end
  br i1 %more, label %body, label %done
body:
  %at = sext i32 %i to i64
  %from = getelementptr float, ptr %x, i64 %at
  %value = load float, ptr %from
  %size = call float @llvm.fabs.f32(float %value)
  %less = fsub float %size, %lambda
  %kept = call float @llvm.maxnum.f32(float %less, float 0.0)
  %signed = call float @llvm.copysign.f32(float %kept, float %value)
  %to = getelementptr float, ptr %out, i64 %at
  store float %signed, ptr %to
  %next = add i32 %i, 1
  br label %head
done:
  ret void
}
declare i32 @llvm.smin.i32(i32, i32)
declare float @llvm.fabs.f32(float)
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.copysign.f32(float, float)
)";
inline constexpr char kSoftshrinkPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry softshrink(.param .u64 x, .param .u64 out, .param .f32 lambda, .param .u32 n) {
  .reg .pred %outside;
  .reg .b32 %program, %threads, %thread, %i, %end;
  .reg .b64 %from, %to, %at;
  .reg .f32 %value, %size, %least, %kept;
  mov.u32 %program, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.s32 %i, %program, %threads, %thread;
  ld.param.u32 %end, [n];
  setp.ge.s32 %outside, %i, %end;
  @%outside ret;
  ld.param.u64 %from, [x];
  ld.param.u64 %to, [out];
  cvta.to.global.u64 %from, %from;
  cvta.to.global.u64 %to, %to;
  mul.wide.s32 %at, %i, 4;
  add.s64 %from, %from, %at;
  add.s64 %to, %to, %at;
  ld.global.f32 %value, [%from];
  ld.param.f32 %least, [lambda];
  abs.f32 %size, %value;
  sub.f32 %kept, %size, %least;
  max.f32 %kept, %kept, 0f00000000;
  copysign.f32 %kept, %value, %kept;
  st.global.f32 [%to], %kept;
  ret;
}
)";
