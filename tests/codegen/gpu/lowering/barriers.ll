; Buffers that are never alive at once share bytes; barriers stand where accesses of one's bytes could meet: between
; phases of a buffer, before bytes are written that others may still read, and none between reads.
; RUN: --shared
declare ptr addrspace(3) @kiln.shared.buffer(i32, i64)

; CHECK: bytes: 2048
; CHECK-LABEL: define void @kernel
define void @kernel(ptr addrspace(3) %unused) {
  %a = call ptr addrspace(3) @kiln.shared.buffer(i32 0, i64 2048)
  store i32 1, ptr addrspace(3) %a, align 4, !kiln.shared !0
; CHECK: store i32 1
; CHECK-NEXT: call void @barrier()
; CHECK-NEXT: load i32
; CHECK-NEXT: load i32
  %x = load i32, ptr addrspace(3) %a, align 4, !kiln.shared !1
  %y = load i32, ptr addrspace(3) %a, align 4, !kiln.shared !1
  %b = call ptr addrspace(3) @kiln.shared.buffer(i32 1, i64 1024)
; The second buffer has the bytes of the first, which is dead: whoever reads it must have done so.
; CHECK-NEXT: call void @barrier()
; CHECK-NEXT: store i32 2
  store i32 2, ptr addrspace(3) %b, align 4, !kiln.shared !2
  %c = call ptr addrspace(3) @kiln.shared.buffer(i32 2, i64 600)
; The third is alive together with the second: bytes of its own, though still some of the first's.
; CHECK-NEXT: store i32 3, ptr addrspace(3) getelementptr {{.*}} @kiln_shared, i64 1024
  store i32 3, ptr addrspace(3) %c, align 4, !kiln.shared !4
; CHECK-NEXT: call void @barrier()
; CHECK-NEXT: load i32
; CHECK-NEXT: load i32
  %z = load i32, ptr addrspace(3) %b, align 4, !kiln.shared !3
  %w = load i32, ptr addrspace(3) %c, align 4, !kiln.shared !5
  ret void
}

!0 = !{i32 0, i32 1, i32 0}
!1 = !{i32 0, i32 0, i32 1}
!2 = !{i32 1, i32 1, i32 0}
!3 = !{i32 1, i32 0, i32 1}
!4 = !{i32 2, i32 1, i32 0}
!5 = !{i32 2, i32 0, i32 1}
