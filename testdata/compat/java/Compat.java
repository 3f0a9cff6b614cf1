import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * The original Java client as a user. Prints one line a message ("sent ID BODY" or "got ID TIMES TAGS BODY"), "done"
 * at the end, and exits with 1 when it could not do what it was asked for.
 */
public class Compat {
    public static void main(String[] args) throws Exception {
        try {
            switch (args[0]) {
                case "produce" -> produce(args[1], args[2], Integer.parseInt(args[3]));
                case "consume" -> consume(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]), args[6]);
                case "hold" -> hold(args[1], args[2], args[3]);
                case "follow" -> follow(args[1], args[2], args[3], Long.parseLong(args[4]));
                case "load" -> load(args[1], args[2], Long.parseLong(args[3]), Integer.parseInt(args[4]));
                case "admin" -> admin();
                default -> throw new IllegalArgumentException(args[0]);
            }
            System.out.println("done");
            System.exit(0);
        } catch (Throwable e) {
            e.printStackTrace(System.out);
            System.exit(1);
        }
    }

    static synchronized void line(String format, Object... args) {
        System.out.println(String.format(format, args));
    }

    static void sent(SendResult r, String body) {
        if (r.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException("status " + r.getSendStatus());
        }
        for (String id : r.getMsgId().split(",")) {
            line("sent %s %s", id, body);
        }
    }

    /** Sends count messages in each of the ways the client knows. */
    static void produce(String namesrv, String topic, int count) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer("java-producer");
        p.setNamesrvAddr(namesrv);
        p.setInstanceName("p" + System.nanoTime());
        p.start();
        for (int i = 0; i < count; i++) {
            Message m = new Message(topic, "TagA", "k" + i, ("sync-" + i).getBytes(StandardCharsets.UTF_8));
            sent(p.send(m), "sync-" + i);
        }
        CountDownLatch latch = new CountDownLatch(count);
        AtomicInteger failed = new AtomicInteger();
        for (int i = 0; i < count; i++) {
            String body = "async-" + i;
            p.send(new Message(topic, "TagB", body.getBytes(StandardCharsets.UTF_8)), new SendCallback() {
                public void onSuccess(SendResult r) {
                    sent(r, body);
                    latch.countDown();
                }

                public void onException(Throwable e) {
                    e.printStackTrace(System.out);
                    failed.incrementAndGet();
                    latch.countDown();
                }
            });
        }
        if (!latch.await(30, TimeUnit.SECONDS) || failed.get() > 0) {
            throw new IllegalStateException("asynchronous sends failed");
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            batch.add(new Message(topic, "TagA", "b" + i, ("batch-" + i).getBytes(StandardCharsets.UTF_8)));
        }
        sent(p.send(batch), "batch");
        for (int i = 0; i < count; i++) {
            sent(p.send(new Message(topic, "TagO", ("order-" + i).getBytes(StandardCharsets.UTF_8)),
                (mqs, m, arg) -> mqs.get(0), null), "order-" + i);
        }
        byte[] large = new byte[20000];
        Arrays.fill(large, (byte) 'L');
        sent(p.send(new Message(topic, "TagA", large)), "large"); // the client compresses it
        Message later = new Message(topic, "TagA", "later".getBytes(StandardCharsets.UTF_8));
        later.setDelayTimeLevel(1);
        sent(p.send(later), "later");
        p.shutdown();
    }

    /** Consumes until count different messages came: push, orderly or lite. */
    static void consume(String namesrv, String group, String topic, String tags, int count, String how) throws Exception {
        CountDownLatch latch = new CountDownLatch(1);
        CountDownLatch secondLatch = new CountDownLatch(1);
        java.util.Set<String> seen = java.util.concurrent.ConcurrentHashMap.newKeySet();
        java.util.Set<String> second = java.util.concurrent.ConcurrentHashMap.newKeySet();
        java.util.function.Consumer<MessageExt> got = m -> {
            String body = m.getBody().length > 100 ? m.getBody().length + "*" + (char) m.getBody()[0] : new String(m.getBody(), StandardCharsets.UTF_8);
            line("got %s %d %s %s", m.getMsgId(), m.getReconsumeTimes(), m.getTags(), body);
            seen.add(m.getMsgId() + " " + body);
            if (seen.size() >= count) {
                latch.countDown();
            }
            if (m.getReconsumeTimes() > 0 && second.add(body) && second.size() >= count) {
                secondLatch.countDown();
            }
        };
        if (how.equals("lite")) {
            DefaultLitePullConsumer c = new DefaultLitePullConsumer(group);
            c.setNamesrvAddr(namesrv);
            c.setInstanceName("l" + System.nanoTime());
            c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            c.subscribe(topic, tags);
            c.start();
            long end = System.currentTimeMillis() + 60000;
            while (latch.getCount() > 0 && System.currentTimeMillis() < end) {
                c.poll(1000).forEach(got);
            }
            c.commitSync();
            c.shutdown();
        } else {
            DefaultMQPushConsumer c = new DefaultMQPushConsumer(group);
            c.setNamesrvAddr(namesrv);
            c.setInstanceName("c" + System.nanoTime());
            c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            c.setMaxReconsumeTimes(2);
            c.subscribe(topic, tags);
            if (how.equals("orderly")) {
                c.registerMessageListener((MessageListenerOrderly) (msgs, ctx) -> {
                    msgs.forEach(got);
                    return ConsumeOrderlyStatus.SUCCESS;
                });
            } else {
                c.registerMessageListener((MessageListenerConcurrently) (msgs, ctx) -> {
                    msgs.forEach(got);
                    if (how.equals("retry") && msgs.get(0).getReconsumeTimes() < 1) {
                        ctx.setDelayLevelWhenNextConsume(1);
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                });
            }
            c.start();
            latch.await(60, TimeUnit.SECONDS);
            if (how.equals("retry")) {
                // The second delivery of each is due after a second; a client that asked for the route of
                // the retry topic too early asks again after 20 to 30.
                long begun = System.currentTimeMillis();
                secondLatch.await(60, TimeUnit.SECONDS);
                line("second deliveries after %d ms", System.currentTimeMillis() - begun);
            }
            c.shutdown();
        }
        if (seen.size() < count) {
            throw new IllegalStateException("got " + seen.size() + " of " + count);
        }
    }

    /** A push consumer that prints "got ID QUEUE OFFSET" and takes slow milliseconds for each message, until it is killed. */
    static void follow(String namesrv, String group, String topic, long slow) throws Exception {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(group);
        c.setNamesrvAddr(namesrv);
        c.setInstanceName("f" + System.nanoTime());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setConsumeThreadMin(4);
        c.setConsumeThreadMax(4);
        c.subscribe(topic, "*");
        c.registerMessageListener((MessageListenerConcurrently) (msgs, ctx) -> {
            for (MessageExt m : msgs) {
                if (slow > 0) {
                    try {
                        Thread.sleep(slow);
                    } catch (InterruptedException e) {
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                }
                line("got %s %d %d", m.getMsgId(), m.getQueueId(), m.getQueueOffset());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        while (true) {
            Thread.sleep(1000);
        }
    }

    /** Sends one message after the other, every so many milliseconds, until its input ends: "sent ID STATUS MILLIS" or "failed MILLIS WHY". */
    static void load(String namesrv, String topic, long every, int retries) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer("java-load");
        p.setNamesrvAddr(namesrv);
        p.setInstanceName("d" + System.nanoTime());
        p.setRetryTimesWhenSendFailed(retries);
        p.start();
        for (int i = 0; System.in.available() == 0; i++) {
            long begin = System.nanoTime();
            try {
                SendResult r = p.send(new Message(topic, "TagL", ("load-" + i).getBytes(StandardCharsets.UTF_8)));
                line("sent %s %s %d", r.getMsgId(), r.getSendStatus(), (System.nanoTime() - begin) / 1000000);
            } catch (Exception e) {
                line("failed %d %s", (System.nanoTime() - begin) / 1000000, e.toString().replace('\n', ' '));
            }
            Thread.sleep(every);
        }
        p.shutdown();
    }

    /** Runs the mqadmin commands of its input, one a line, in this one process; a line "--end" follows each. */
    static void admin() throws Exception {
        // classes that mqadmin has and does not offer
        MQAdminStartup.initCommand(new org.apache.rocketmq.tools.command.consumer.ConsumerSubCommand());
        MQAdminStartup.initCommand(new org.apache.rocketmq.tools.command.offset.ResetOffsetByTimeOldCommand());
        MQAdminStartup.initCommand(new org.apache.rocketmq.tools.command.offset.GetConsumerStatusCommand());
        MQAdminStartup.initCommand(new org.apache.rocketmq.tools.command.message.DecodeMessageIdCommond());
        java.io.BufferedReader in = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String l = in.readLine(); l != null; l = in.readLine()) {
            MQAdminStartup.main0(l.split(" "), null);
            line("%n--end");
            System.out.flush();
        }
    }

    /** Stays online as a producer and a consumer until its input ends, for the commands that list clients. */
    static void hold(String namesrv, String group, String topic) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer(group + "-p");
        p.setNamesrvAddr(namesrv);
        p.setInstanceName("hp" + System.nanoTime());
        p.start();
        p.send(new Message(topic, "TagH", "held-key", "hold".getBytes(StandardCharsets.UTF_8)));
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(group);
        c.setNamesrvAddr(namesrv);
        c.setInstanceName("hc" + System.nanoTime());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.subscribe(topic, "TagA || TagH");
        CountDownLatch first = new CountDownLatch(1);
        c.registerMessageListener((MessageListenerConcurrently) (msgs, ctx) -> {
            first.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        if (!first.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("nothing consumed");
        }
        line("holding");
        while (System.in.read() >= 0) {
        }
        c.shutdown();
        p.shutdown();
    }
}
