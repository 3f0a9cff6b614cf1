// Package delay delivers the messages of the delay levels: those that lie in
// SCHEDULE_TOPIC_XXXX until their time has come (ScheduleMessageService of
// RocketMQ).
//
//	producer, DELAY=3 ──> SCHEDULE_TOPIC_XXXX, queue 2 ──(10 s)──> real topic and queue
//	                      index entry: time of delivery     properties REAL_TOPIC, REAL_QID
//
// The messages of a level have one delay, so they fall due in the order of
// their queue, and the progress of a level is one number, kept in
// config/delayOffset.json.
//
// What is promised: a message is delivered at its time or later, never lost,
// and after a crash perhaps twice. The progress on disk never passes a copy
// that is not on disk yet.
//
// Goroutines: Run delivers, on its own goroutine. It is woken by the earliest
// time of delivery and by an arrival in a level that was empty. Run also starts
// one goroutine that saves the progress, so that a sync never makes a delivery
// late; it is woken by deliveries, at most once a second. Both stop with Run's
// context.
package delay
