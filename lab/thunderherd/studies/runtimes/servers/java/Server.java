/** A virtual thread for each client, with blocking calls: java Server http|echo PORT. Needs Java 21. */
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;

public class Server {
    private static final byte[] HEAD = "HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n".getBytes();
    private static final byte[] REPLY = Arrays.copyOf(HEAD, HEAD.length + 4000);
    private static final byte[] END = "\r\n\r\n".getBytes();

    public static void main(String[] words) throws Exception {
        boolean isEcho = words[0].equals("echo");
        Arrays.fill(REPLY, HEAD.length, REPLY.length, (byte) 'x');
        Method start = virtualThreads();
        ServerSocket listener = new ServerSocket();
        listener.setReuseAddress(true);
        listener.bind(new InetSocketAddress("0.0.0.0", Integer.parseInt(words[1])), 1024);
        while (true) {
            Socket client = listener.accept();
            Runnable served = () -> serve(client, isEcho);
            start.invoke(null, served);
        }
    }

    /** By reflection, so that an older compiler builds this file and the program itself says what it needs. */
    private static Method virtualThreads() {
        try {
            return Thread.class.getMethod("startVirtualThread", Runnable.class);
        } catch (NoSuchMethodException older) {
            System.err.println("virtual threads need Java 21, and this is " + System.getProperty("java.version"));
            System.exit(1);
            return null;
        }
    }

    private static void serve(Socket client, boolean isEcho) {
        try (client) {
            client.setTcpNoDelay(true);
            InputStream in = client.getInputStream();
            OutputStream out = client.getOutputStream();
            byte[] buffer = new byte[65536];
            int matched = 0;
            for (int length; (length = in.read(buffer)) > 0; ) {
                if (isEcho) {
                    out.write(buffer, 0, length);
                    continue;
                }
                for (int at = 0; at < length; at++) {
                    matched = buffer[at] == END[matched] ? matched + 1 : buffer[at] == '\r' ? 1 : 0;
                    if (matched == END.length) {
                        matched = 0;
                        out.write(REPLY);
                    }
                }
            }
        } catch (Exception ended) {
            // A client that is gone needs no reply.
        }
    }
}
